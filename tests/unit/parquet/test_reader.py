"""Data files: rows keep their position, and damage raises a typed error."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta.errors import DataFileError, ObjectNotFoundError
from lazydelta.parquet import DataFile
from lazydelta.store import MemoryStore

ROOT = "/memory"


def written(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def opened(data, size=None, root=ROOT, limit=2**30):
    return DataFile(
        MemoryStore({"a.parquet": data}, root=root), "a.parquet", size, max_decoded_bytes=limit
    )


TABLE = pa.table({"id": np.arange(1000), "name": [f"n{i % 3}" for i in range(1000)]})
DATA = written(TABLE, row_group_size=100)


@pytest.mark.parametrize("root", [ROOT, "memory://table"])
@pytest.mark.parametrize("batch_rows", [1, 7, 100, 250, 5000])
@pytest.mark.parametrize(
    "groups",
    [
        pytest.param(list(range(10)), id="all"),
        pytest.param([0], id="the-first"),
        pytest.param([2, 3, 7, 9], id="some-with-gaps"),
        pytest.param([], id="none"),
    ],
)
def test_positions_are_those_of_the_file(groups, batch_rows, root):
    file = opened(DATA, len(DATA), root)
    seen = []
    for rows in file.read(["id"], groups, batch_rows=batch_rows):
        assert rows.length <= batch_rows or rows.length <= 1024
        assert rows.columns.column("id").to_pylist() == list(
            range(rows.start, rows.start + rows.length)
        )
        seen += range(rows.start, rows.start + rows.length)
    file.close()
    assert seen == [row for g in groups for row in range(100 * g, 100 * g + 100)]


def test_interleaved_reads_keep_their_batch_sizes():
    file = opened(DATA)
    few = file.read(["id"], [0, 1, 2], batch_rows=30)
    many = file.read(["id"], [0, 1, 2], batch_rows=200)
    seen = [(next(few).length, next(many).length), (next(few).length, next(many).length)]
    assert seen == [(30, 200), (30, 100)]
    assert [rows.length for rows in few] == [30] * 8


def test_rows_without_columns_are_counted():
    found = list(opened(DATA).read([], [1, 2, 5], batch_rows=150))
    assert [(r.start, r.length, r.columns) for r in found] == [
        (100, 150, None),
        (250, 50, None),
        (500, 100, None),
    ]


def test_dictionary_strings_stay_dictionary_encoded():
    (rows, *_) = opened(DATA).read(["name"], [0], batch_rows=100)
    column = rows.columns.column("name")
    assert pa.types.is_dictionary(column.type)
    assert column.dictionary_decode().to_pylist() == TABLE["name"].to_pylist()[:100]


def test_plain_strings_stay_plain():
    table = pa.table({"name": [f"a rather long and different text {i}" for i in range(500)]})
    (rows,) = opened(written(table)).read(["name"], [0], batch_rows=1000)
    assert rows.columns.column("name").type == pa.string()


def test_a_long_repeated_string_is_stored_once_and_batches_are_split():
    repeated = pa.array(["x" * 100_000]).take(pa.array([0] * 5000))
    file = opened(written(pa.table({"s": repeated})), limit=10**6)
    pieces = list(file.read(["s"], [0], batch_rows=5000))
    assert {rows.length for rows in pieces} == {10}
    assert all(pa.types.is_dictionary(rows.columns.column(0).type) for rows in pieces)
    assert sum(rows.length for rows in pieces) == 5000


@pytest.mark.parametrize("root", [ROOT, "memory://table"])
def test_growing_delta_strings_are_decoded_in_small_batches(root):
    strings = pa.table({"s": ["x" * length for length in range(2000)]})
    data = written(strings, use_dictionary=False, column_encoding={"s": "DELTA_BYTE_ARRAY"})
    assert len(data) < 20_000  # for two million bytes
    file = opened(data, root=root, limit=100_000)
    pieces = list(file.read(["s"], [0], batch_rows=2000))
    assert max(rows.columns.nbytes for rows in pieces) < 120_000
    assert pa.Table.from_batches([rows.columns for rows in pieces]).equals(strings)


def test_wide_rows_are_decoded_in_smaller_batches():
    table = pa.table({"blob": [bytes([i % 256]) * 100_000 for i in range(1500)]})
    data = written(table, use_dictionary=False, compression="zstd")
    lengths = [rows.length for rows in opened(data).read(["blob"], [0], batch_rows=100_000)]
    assert sum(lengths) == 1500
    assert max(lengths) == 1024  # the least that is read at once


def test_int96_timestamps_of_the_year_9999_do_not_overflow():
    micros = 253_402_300_799_999_999
    table = pa.table({"t": pa.array([micros, -1], pa.timestamp("us"))})
    data = written(table, use_deprecated_int96_timestamps=True)
    (rows,) = opened(data).read(["t"], [0], batch_rows=10)
    assert rows.columns.column("t").cast(pa.int64()).to_pylist() == [micros, -1]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"PAR1", id="magic-only"),
        pytest.param(DATA[:-9], id="truncated"),
        pytest.param(b"not Parquet at all, but long enough", id="not-parquet"),
        pytest.param(DATA[:-8] + b"\xff\xff\xff\x7fPAR1", id="a-footer-larger-than-the-file"),
        pytest.param(DATA[:-100] + bytes(92) + DATA[-8:], id="a-footer-of-zeros"),
    ],
)
def test_a_damaged_file_raises_with_its_path(data):
    with pytest.raises(DataFileError) as caught:
        list(opened(data).read(["id"], [0], batch_rows=10))
    assert caught.value.path == "a.parquet"
    assert caught.value.table == ROOT


def test_a_damaged_page_raises_with_its_path():
    middle = len(DATA) // 3
    damaged = DATA[: middle - 400] + b"\xff" * 800 + DATA[middle + 400 :]
    with pytest.raises(DataFileError):
        list(opened(damaged).read(["id", "name"], range(10), batch_rows=100))


def test_a_missing_file_raises_the_stores_error():
    with pytest.raises(ObjectNotFoundError):
        DataFile(MemoryStore({}, root=ROOT), "a.parquet", max_decoded_bytes=2**30)


def test_column_bytes_are_those_of_the_columns():
    file = opened(DATA)
    both = file.column_bytes(["id", "name"], [0, 1])
    assert file.column_bytes(["id"], [0, 1]) + file.column_bytes(["name"], [0, 1]) == both
    assert 0 < file.column_bytes(["name"], [0]) < file.column_bytes(["id"], [0])
