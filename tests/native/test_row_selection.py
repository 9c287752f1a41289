"""Row selection by the decoder: the same rows as with pyarrow, with and without views."""

from __future__ import annotations

import logging
from contextlib import closing
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from lazydelta import ReadOptions
from lazydelta.errors import DataFileError, DeletionVectorError
from lazydelta.formats import DeletedRows
from lazydelta.parquet import native as compiled
from lazydelta.parquet import tuning
from tests.native.support import is_view, opened, plain, read, read_chosen, three_ways, watched
from tests.unit.scan.read.tables import Rows, field, inline

ROWS = 1000
LONG = "a string too long to be inlined in a view: "


def rows(count=ROWS):
    """Return columns of every width, with and without nulls, with few and many distinct strings."""
    numbers = np.arange(count)
    holes = numbers % 7 == 3
    return pa.table(
        {
            "n": numbers,
            "i": pa.array(numbers.astype(np.int32), mask=holes),
            "f": pa.array(numbers / 3, mask=holes),
            "b": pa.array(numbers % 3 == 0, mask=holes),
            "few": [f"text {at % 9}" for at in range(count)],
            "many": [None if at % 11 == 0 else LONG[: at % 34] + str(at) for at in range(count)],
            "raw": [b"\xff" * (at % 40) for at in range(count)],
            "price": pa.array(numbers).cast(pa.decimal128(20, 0)),
            "fix": pa.array([b"%06d" % at for at in range(count)], pa.binary(6)),
            "at": pa.array(numbers, pa.timestamp("us", "UTC")),
        }
    )


def choices(count=ROWS):
    every = np.arange(count)
    chance = np.random.default_rng(5)
    return {
        "nothing-deleted": every < 0,
        "all-deleted": every >= 0,
        "the-first": every == 0,
        "the-last": every == count - 1,
        "the-first-and-the-last": (every == 0) | (every == count - 1),
        "every-second": every % 2 == 0,
        "every-second-from-the-second-on": every % 2 == 1,
        "all-but-one": every != 517,
        "a-long-run": (every > 100) & (every < 900),
        "runs": every // 37 % 2 == 0,
        "a-row-group": every // 130 == 2,
        "up-to-the-end-of-a-batch": every < 64,
        "across-the-ends-of-batches": every % 64 > 60,
        "a-tenth": chance.random(count) < 0.1,
        "most": chance.random(count) < 0.97,
    }


def deleted(mask):
    return DeletedRows(BitMap64(np.flatnonzero(mask).tolist())).kept


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("chosen") / "a.parquet"
    pq.write_table(rows(), path, row_group_size=130, data_page_size=500)
    return path


@pytest.mark.parametrize("views", [True, False])
@pytest.mark.parametrize("name", choices())
def test_selected_rows(written, name, views):
    mask = choices()[name]
    expected = rows().filter(pa.array(~mask))
    for batch_rows in (64, 131, 1 << 20):
        with watched() as taken:
            found = read_chosen(written, deleted(mask), views=views, batch_rows=batch_rows)
        assert taken == [True]
        if found is None:
            assert not expected.num_rows
            continue
        found.validate(full=True)
        assert is_view(found.schema.field("many").type) is views
        assert plain(found).equals(plain(expected))
        if not views:
            assert found.schema.types == expected.schema.types


@pytest.mark.parametrize("views", [True, False])
def test_some_row_groups_of_some_columns(written, views):
    """The bitmap starts at the first row read, and each run has its own bitmap."""
    mask = choices()["a-tenth"]
    groups, columns = [1, 2, 5], ["few", "n"]
    every = np.arange(ROWS) // 130
    expected = rows().filter(pa.array(~mask & np.isin(every, groups))).select(["n", "few"])
    arguments = {"columns": columns, "row_groups": groups, "batch_rows": 50}
    with watched() as taken:
        found = read_chosen(written, deleted(mask), views=views, **arguments)
    assert taken == [True, True]
    assert plain(found).equals(plain(expected))


def test_positions_without_a_selection(written):
    with closing(opened(written)) as file:
        groups = range(file.metadata.num_row_groups)
        found = [
            (rows.start, rows.columns["n"][0].as_py())
            for rows in file.read(["n"], groups, batch_rows=64)
        ]
    assert [start for start, _ in found] == [first for _, first in found]


def test_few_views_release_their_pages(tmp_path):
    strings = pa.table({"t": [f"{LONG}{at}" for at in range(10_000)]})
    pq.write_table(strings, tmp_path / "a.parquet", use_dictionary=False)
    few = read_chosen(tmp_path / "a.parquet", deleted(np.arange(10_000) != 7), views=True)
    assert few.to_pylist() == [{"t": f"{LONG}7"}]
    assert few.get_total_buffer_size() < 1000
    most = read_chosen(tmp_path / "a.parquet", deleted(np.arange(10_000) == 7), views=True)
    assert most.get_total_buffer_size() > 400_000


def test_strings_hold_no_other_memory(tmp_path):
    strings = pa.table({"t": [f"{LONG}{at}" for at in range(10_000)]})
    pq.write_table(strings, tmp_path / "a.parquet")
    found = read_chosen(tmp_path / "a.parquet", None, views=False)
    assert found.get_total_buffer_size() < strings.nbytes + 10_000


# --- bits that are many, or wrong -------------------------------------------------------------------


def test_bitmaps_are_built_in_pieces(written):
    mask = choices()["a-tenth"]
    with patch.object(tuning, "BITMAP_CHUNK_ROWS", 64), watched() as taken:
        found = read_chosen(written, deleted(mask), views=False)
    assert taken == [True]
    assert plain(found).equals(plain(rows().filter(pa.array(~mask))))


def test_no_bitmap_for_too_many_rows(written):
    mask = choices()["a-tenth"]
    with patch.object(tuning, "BITMAP_ROWS", ROWS - 1), watched() as taken:
        found = read_chosen(written, deleted(mask), views=True)
    assert taken == []
    assert plain(found).equals(plain(rows().filter(pa.array(~mask))))


@pytest.mark.parametrize("size", [0, 1, ROWS // 8 - 1, ROWS // 8 + 1])
def test_a_bitmap_of_another_length_is_refused(written, size):
    groups = list(range(pq.read_metadata(written).num_row_groups))
    with pytest.raises(ValueError, match=f"of {size} bytes does not fit {ROWS} rows"):
        compiled._decoder().read(str(written), [0], groups, 100, kept=bytes(size))


# --- what pyarrow has to do -------------------------------------------------------------------------


def not_all_utf8(path):
    """Write strings with invalid UTF-8 in a late row."""
    raw = pa.array([b"\xfftext" if at == 700 else f"text {at}".encode() for at in range(ROWS)])
    strings = pa.Array.from_buffers(pa.string(), ROWS, raw.buffers())
    pq.write_table(pa.table({"n": range(ROWS), "t": strings}), path, use_dictionary=False)


@pytest.mark.parametrize("name", ["nothing-deleted", "a-tenth", "all-but-one", "every-second"])
def test_invalid_utf8_is_read_as_by_pyarrow(tmp_path, name):
    """Rows returned before the invalid one are not repeated."""
    path, mask = tmp_path / "a.parquet", choices()[name]
    not_all_utf8(path)
    expected = read(path, views=False)[0].filter(pa.array(~mask))
    found = read_chosen(path, deleted(mask), views=False, batch_rows=64)
    assert found["n"].equals(expected["n"])
    assert found["t"].cast(pa.binary()).equals(expected["t"].cast(pa.binary()))
    with pytest.raises(DataFileError, match="utf-8"):
        read_chosen(path, deleted(mask), views=True, batch_rows=64)


def test_long_strings_are_returned_in_pieces_by_pyarrow(tmp_path):
    strings = pa.table({"n": range(ROWS), "t": ["x" * 10_000, "y"] * (ROWS // 2)})
    pq.write_table(strings, tmp_path / "a.parquet")
    mask = choices()["every-second"]
    for kept, expected in ((None, strings), (deleted(mask), strings.filter(pa.array(~mask)))):
        found = read_chosen(tmp_path / "a.parquet", kept, views=False, limit=1 << 20)
        assert found.equals(expected)
        largest = max(part.nbytes for part in found["t"].chunks)
        assert largest < 3 << 20


def test_a_decoder_of_another_version_is_not_used(caplog):
    compiled._decoder.cache_clear()
    try:
        with (
            patch.object(compiled, "_INTERFACE", compiled._INTERFACE + 1),
            caplog.at_level(logging.WARNING),
        ):
            assert compiled._decoder() is None
        assert "its version does not match" in caplog.text
    finally:
        compiled._decoder.cache_clear()


# --- tables -----------------------------------------------------------------------------------------


def table_of(path, mask):
    made = Rows(path, [field("n", "long"), field("t", "string")], features=("deletionVectors",))
    numbers = np.arange(len(mask))
    content = pa.table({"n": numbers, "t": numbers.astype(str)})
    vector = inline(np.flatnonzero(mask).tolist())
    made.file("a.parquet", content, row_group_size=130, vector=vector)
    made.file("b.parquet", content)
    return made.open().scan(), pa.concat_tables([content.filter(pa.array(~mask)), content])


@pytest.mark.parametrize("name", ["nothing-deleted", "all-deleted", "runs", "a-tenth"])
def test_a_table_with_a_deletion_vector(tmp_path, name):
    scan, expected = table_of(tmp_path / "t", choices()[name])
    found, taken = three_ways(scan, batch_rows=100)
    assert taken == [True, True]
    assert plain(found).equals(plain(expected))
    with watched() as taken:
        found = scan.to_arrow(ReadOptions(ordered=True))
    assert taken == [True, True]
    assert found.cast(expected.schema).equals(expected)


@pytest.mark.parametrize("views", [True, False])
def test_a_deletion_vector_beyond_the_last_row(tmp_path, views):
    made = Rows(tmp_path / "t", [field("n", "long")], features=("deletionVectors",))
    made.file("a.parquet", pa.table({"n": [1, 2, 3]}), vector=inline([0, 3]))
    with watched() as taken, pytest.raises(DeletionVectorError, match="it lists row 3"):
        made.open().scan().to_arrow(ReadOptions(schema_force_view_types=views))
    assert taken == []
