"""Row ranges of a row group: the decoder returns the same rows as pyarrow."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import DataFileError
from lazydelta.parquet import native as compiled
from lazydelta.parquet.pyarrow_reader import PyArrowReader
from tests.native.support import opened, plain, watched, without_decoder
from tests.native.test_parity import cases

ROWS = 50_000


def between(path, columns, group, start, end, batch_rows=1 << 20):
    """Return a row range as a table, after checking the positions."""
    with closing(opened(path)) as file:
        found = list(file.read_range(columns, group, start, end, batch_rows=batch_rows))
    places = [at for rows in found for at in range(rows.start, rows.end)]
    assert places == list(range(start, end))
    assert all(rows.length == rows.columns.num_rows <= batch_rows for rows in found)
    # pyarrow returns dictionary-encoded strings in some of the batches only.
    return pa.concat_tables([plain(pa.Table.from_batches([rows.columns])) for rows in found])


@settings(max_examples=60)
@given(cases(), st.data())
def test_row_ranges_are_the_same(case, data):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.parquet"
        pq.write_table(case.table, path, **case.options)
        if not case.row_groups:
            return
        group = data.draw(st.sampled_from(case.row_groups))
        first = group * case.options["row_group_size"]
        last = min(first + case.options["row_group_size"], case.table.num_rows)
        start = data.draw(st.integers(first, last - 1))
        end = data.draw(st.integers(start + 1, last))
        found = between(path, case.columns, group, start, end, case.batch_rows)
        with without_decoder():
            expected = between(path, case.columns, group, start, end, case.batch_rows)
    assert found.equals(expected)


@pytest.fixture
def path(tmp_path):
    """A file of one row group, in small pages."""
    rows = pa.table({"n": range(ROWS), "t": [f"text {at}" for at in range(ROWS)]})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=ROWS, data_page_size=4096)
    return tmp_path / "a.parquet"


def test_the_decoder_starts_at_the_range(path):
    with watched() as taken:
        found = between(path, ["n", "t"], 0, 30_000, 30_003)
    assert taken == [True]
    assert found.to_pydict() == {
        "n": [30_000, 30_001, 30_002],
        "t": ["text 30000", "text 30001", "text 30002"],
    }


def test_short_gaps_are_not_skipped(path):
    with closing(opened(path)) as file:
        assert file.can_skip(["n"], 0, 2000)
        assert not file.can_skip(["n"], 0, 10)
        with without_decoder():
            assert not file.can_skip(["n"], 0, 2000)


@pytest.mark.parametrize("span", [(5, 4), (0, ROWS + 1), (ROWS + 1, ROWS + 2)])
def test_the_decoder_refuses_invalid_ranges(path, span):
    with pytest.raises(ValueError, match=f"among its {ROWS}"):
        compiled._decoder().read(str(path), [0], [0], 10, span=span)


def test_a_bitmap_selects_within_the_range(path):
    batches = compiled._decoder().read(
        str(path), [0], [0], 10, span=(100, 110), kept=bytes([0b10000001, 0b10])
    )
    found = pa.RecordBatchReader.from_stream(batches).read_all()
    assert found["n"].to_pylist() == [100, 107, 109]


def test_after_an_error_of_the_decoder_pyarrow_continues(path, monkeypatch):
    decode = compiled.decode_row_groups

    def broken(*args, **kwargs):
        batches = decode(*args, **kwargs)
        yield next(batches)
        raise pa.ArrowInvalid("no more")

    monkeypatch.setattr("lazydelta.parquet.native_reader.decode_row_groups", broken)
    found = between(path, ["n"], 0, 1000, 9000, batch_rows=3000)
    assert found["n"].to_pylist() == list(range(1000, 9000))


def test_damaged_pages_are_an_error(path):
    data = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = chunk.data_page_offset
    data[start + 60 : start + chunk.total_compressed_size - 60] = b"\xff" * (
        chunk.total_compressed_size - 120
    )
    path.write_bytes(data)
    with pytest.raises(DataFileError, match=r"a\.parquet"):
        between(path, ["n"], 0, 30_000, 30_003)


@pytest.mark.parametrize(
    ("column", "options"),
    [
        pytest.param(
            pa.array(range(ROWS), pa.timestamp("us", "UTC")),
            {"use_deprecated_int96_timestamps": True},
            id="int96",
        ),
        pytest.param(pa.array([{"a": at} for at in range(ROWS)]), {}, id="structs"),
        pytest.param(
            pa.array(range(ROWS)), {"compression": {"n": "snappy", "x": "gzip"}}, id="gzip"
        ),
    ],
)
def test_what_only_pyarrow_reads_is_decoded_once(tmp_path, column, options, monkeypatch):
    """pyarrow cannot start at any row, so distant matches are read in one pass."""
    rows, requested = PyArrowReader.read, []

    def noted(self, columns, groups, **more):
        requested.append(tuple(columns))
        return rows(self, columns, groups, **more)

    monkeypatch.setattr(PyArrowReader, "read", noted)
    table = pa.table(
        {"n": range(ROWS), "x": column, "t": [f"a text of row {at}" * 9 for at in range(ROWS)]}
    )
    (tmp_path / "t").mkdir()
    pq.write_table(table, tmp_path / "t" / "a.parquet", row_group_size=ROWS, **options)
    convert_to_deltalake(str(tmp_path / "t"))
    wanted = [100, 9000, 21_000, 40_000]
    scan = ld.Table.open(str(tmp_path / "t")).scan(f"n in {tuple(wanted)}")
    found = scan.to_arrow(ld.ReadOptions(batch_rows=2000))
    assert found["x"].to_pylist() == [column[at].as_py() for at in wanted]
    others = [columns for columns in requested if "n" not in columns]
    assert len(others) == 1


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of three files."""
    path = str(tmp_path_factory.mktemp("filters") / "t")
    rows = pa.table({"n": range(3 * ROWS), "t": [f"text {at}" for at in range(3 * ROWS)]})
    for at in range(3):
        ld.write(path, rows.slice(at * ROWS, ROWS), mode="append")
    return ld.Table.open(path)


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("n between 70000 and 70019", 20),
        ("n >= 49990 and n < 100010", 50_020),
        ("n in (3, 60000, 149999)", 3),
        ("t = 'text 77777'", 1),
        ("n between 10 and 20 or t = 'text 149998'", 12),
    ],
)
@pytest.mark.parametrize("views", [False, True])
def test_filters_find_the_same_rows(table, where, count, views):
    options = ld.ReadOptions(ordered=True, schema_force_view_types=views)
    scan = table.scan(where)
    with watched() as taken:
        found = scan.to_arrow(options)
    assert any(taken)
    with without_decoder():
        assert plain(found).equals(plain(scan.to_arrow(options)))
    assert found.num_rows == count
