"""Rows from the middle of a row group: the same ones, however few pages were decoded."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.errors import DataFileError
from lazydelta.parquet import DataFile
from lazydelta.parquet import page_filter as paging
from lazydelta.parquet import reader as parquet
from lazydelta.parquet.excerpt import RawFooter
from lazydelta.parquet.thrift import ThriftError
from lazydelta.store import MemoryStore

ROWS = 2000


def some(values, every=0):
    """Return values, each so-and-so-manieth of them null."""
    return [None if every and at % every == 1 else value for at, value in enumerate(values)]


COLUMNS = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "small": pa.array(some((i % 200 for i in range(ROWS)), 7), pa.int32()),
        "kind": pa.array(some((f"kind {i % 9}" for i in range(ROWS)), 11)),
        "name": pa.array(some((f"name {i * 7919 % 10_007}" for i in range(ROWS)), 40)),
        "given_up": pa.array([f"one of {min(i, 300)} {i if i > 300 else ''}" for i in range(ROWS)]),
        "flag": pa.array(some((i % 3 == 0 for i in range(ROWS)), 5)),
        "real": pa.array(some((i / 7 for i in range(ROWS)), 13), pa.float64()),
        "price": pa.array([decimal.Decimal(i) / 100 for i in range(ROWS)], pa.decimal128(20, 2)),
        "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(i // 10) for i in range(ROWS)]),
        "ts": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
        "bytes": pa.array([bytes([i % 256]) * (i % 30) for i in range(ROWS)]),
        "nothing": pa.nulls(ROWS, pa.string()),
    }
)
ENCODINGS = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "delta": {
        "use_dictionary": False,
        "column_encoding": {
            "id": "DELTA_BINARY_PACKED",
            "small": "DELTA_BINARY_PACKED",
            "kind": "DELTA_LENGTH_BYTE_ARRAY",
            "name": "DELTA_BYTE_ARRAY",
            "real": "BYTE_STREAM_SPLIT",
            "flag": "RLE",
        },
    },
    "given-up": {"dictionary_pagesize_limit": 2000},
}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Let pages be looked at however little is left out."""
    monkeypatch.setattr(parquet, "_LEAST_BYTES", 0)
    monkeypatch.setattr(parquet, "_LEAST_UNINDEXED_BYTES", 0)
    monkeypatch.setattr(parquet, "_BYTES_PER_BYTE_LEFT_OUT", 2**60)
    monkeypatch.setattr(paging, "_BYTES_PER_FOOTER_BYTE", 0)


@pytest.fixture
def excerpts(monkeypatch):
    """Whether there was a way to make excerpts, each time that they were asked for."""
    calls, plain = [], paging.PageFilter.excerpts

    def noted(self, *args):
        found = plain(self, *args)
        calls.append(found is not None)
        return found

    monkeypatch.setattr(paging.PageFilter, "excerpts", noted)
    return calls


def written(table, **options):
    sink = io.BytesIO()
    how = {"data_page_size": 700, "write_batch_size": 50, "compression": "snappy"} | options
    pq.write_table(table, sink, **how)
    return sink.getvalue()


def opened(data):
    store = MemoryStore({"a.parquet": data}, root="/memory")
    return DataFile(store, "a.parquet", inflated_limit=2**30)


def rows_of(file, columns, group, start, end, batch_rows):
    """Return the rows, after a check that they are where they say."""
    pieces, position = [], start
    for rows in file.rows_between(columns, group, start, end, batch_rows=batch_rows):
        assert rows.start == position
        assert 0 < rows.length <= batch_rows
        position += rows.length
        pieces.append(pa.table(rows.columns).select(columns))
    assert position == end
    return pa.concat_tables([_undictionaried(piece) for piece in pieces])


def _undictionaried(table):
    types = [t.value_type if pa.types.is_dictionary(t) else t for t in table.schema.types]
    return table.cast(pa.schema(zip(table.schema.names, types, strict=True)))


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        *((encoding, codec) for encoding in ENCODINGS for codec in ("snappy", "zstd")),
        *(("dictionary", codec) for codec in ("none", "gzip", "lz4", "brotli")),
    ],
)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("index", [True, False], ids=["by-index", "by-headers"])
def test_rows_are_those_of_the_file(excerpts, encoding, version, codec, index):
    data = written(
        COLUMNS, compression=codec, data_page_version=version, write_page_index=index,
        row_group_size=1500, write_page_checksum=True, **ENCODINGS[encoding],
    )  # fmt: skip
    file = opened(data)
    for start, end, group in ((0, 1, 0), (700, 720, 0), (1499, 1500, 0), (1601, 2000, 1)):
        found = rows_of(file, COLUMNS.column_names, group, start, end, 128)
        assert found.equals(COLUMNS.slice(start, end - start))
    assert excerpts == [True] * 4


FILES = {
    (encoding, index): written(COLUMNS, write_page_index=index, **ENCODINGS[encoding])
    for encoding in ENCODINGS
    for index in (True, False)
}


@settings(max_examples=60)
@given(
    which=st.sampled_from(sorted(FILES)),
    columns=st.sets(st.sampled_from(COLUMNS.column_names), min_size=1),
    ends=st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).filter(lambda e: e[0] != e[1]),
    batch_rows=st.integers(1, ROWS),
)
def test_any_rows_of_any_columns(which, columns, ends, batch_rows):
    start, end = sorted(ends)
    names = [name for name in COLUMNS.column_names if name in columns]
    found = rows_of(opened(FILES[which]), names, 0, start, end, batch_rows)
    assert found.equals(COLUMNS.select(names).slice(start, end - start))


def test_a_stream_that_is_left_early_decodes_no_more_pages(monkeypatch, excerpts):
    monkeypatch.setattr(parquet, "BATCH_BYTES", 1)
    taken, plain = [], paging.take_excerpt

    def noted(*args):
        found = plain(*args)
        taken.append(found)
        return found

    monkeypatch.setattr(paging, "take_excerpt", noted)
    file = opened(FILES["plain", True])
    rows = file.rows_between(["id", "name"], 0, 1000, 2000, batch_rows=10)
    assert [next(rows).start for _ in range(5)] == [1000, 1010, 1020, 1030, 1040]
    rows.close()
    held = sum(excerpt.metadata.num_rows for excerpt in taken)
    assert held < 300  # of both columns together
    assert excerpts == [True]


def test_the_dictionary_comes_along_only_where_pages_refer_to_it():
    footer = pq.read_metadata(io.BytesIO(FILES["given-up", True]))
    whole = footer.row_group(0).column(footer.schema.names.index("given_up"))
    assert whole.has_dictionary_page
    file = opened(FILES["given-up", True])
    place = COLUMNS.column_names.index("given_up")
    has = []
    for rows in ((0, 10), (1990, 2000)):
        (excerpt,) = file._paging.excerpts(0, [place], rows, 100)
        has.append(excerpt.metadata.row_group(0).column(place).has_dictionary_page)
    assert has == [True, False]


NESTED = pa.table(
    {
        "id": range(300),
        "list": [[i, None][: i % 3] for i in range(300)],
        "struct": [None if i % 5 == 0 else {"a": i, "b": str(i)} for i in range(300)],
        "map": pa.array(
            [[("k", i)][: i % 2] for i in range(300)], pa.map_(pa.string(), pa.int64())
        ),
        "dot.ted": range(300),
    }
)


@pytest.mark.parametrize("name", ["list", "struct", "map", "dot.ted"])
def test_columns_with_parts_are_read_the_usual_way(excerpts, name):
    file = opened(written(NESTED, write_page_index=True))
    assert not file.leaps(["id", name], 0, 250)
    found = rows_of(file, ["id", name], 0, 250, 260, 7)
    assert found.to_pylist() == NESTED.select(["id", name]).slice(250, 10).to_pylist()
    assert excerpts == []


def test_rows_without_columns():
    file = opened(written(NESTED, row_group_size=100))
    found = [
        (r.start, r.length, r.columns) for r in file.rows_between([], 1, 130, 150, batch_rows=12)
    ]
    assert found == [(130, 6, None), (136, 12, None), (148, 2, None)]


def test_remote_files_are_read_the_usual_way(excerpts):
    data = FILES["plain", True]
    store = MemoryStore({"a.parquet": data}, root="memory://table")
    file = DataFile(store, "a.parquet", inflated_limit=2**30)
    assert rows_of(file, ["id"], 0, 1000, 1010, 100).column("id").to_pylist() == [
        *range(1000, 1010)
    ]
    assert not file.leaps(["id"], 0, 1000)
    assert excerpts == []


@pytest.mark.parametrize(
    ("least", "per_byte", "per_footer", "leaps"),
    [
        pytest.param(0, 2**60, 0, True, id="much"),
        pytest.param(2**30, 2**60, 0, False, id="little"),
        pytest.param(0, 1, 0, False, id="little-of-a-large-row-group"),
        pytest.param(0, 2**60, 2**20, False, id="of-a-file-that-is-mostly-footer"),
    ],
)
def test_pages_are_looked_at_only_where_it_pays(monkeypatch, least, per_byte, per_footer, leaps):
    monkeypatch.setattr(parquet, "_LEAST_BYTES", least)
    monkeypatch.setattr(parquet, "_BYTES_PER_BYTE_LEFT_OUT", per_byte)
    monkeypatch.setattr(paging, "_BYTES_PER_FOOTER_BYTE", per_footer)
    assert opened(FILES["plain", True]).leaps(["id", "name"], 0, 1900) is leaps


@pytest.mark.parametrize("index", [True, False])
def test_without_an_index_more_must_be_left_out(monkeypatch, index):
    monkeypatch.setattr(parquet, "_LEAST_UNINDEXED_BYTES", 2**30)
    assert opened(FILES["plain", index]).leaps(["id", "name"], 0, 1900) is index


def test_a_footer_that_is_cut_off():
    data = FILES["plain", True]
    size = pq.read_metadata(io.BytesIO(data)).serialized_size
    footer = data[-8 - size : -8]
    assert RawFooter(footer).row_groups[0][3] == ROWS
    for end in range(0, len(footer) // 2, 17):
        with pytest.raises(ThriftError):
            RawFooter(footer[:end])


@settings(max_examples=150)
@given(st.integers(4, len(FILES["dictionary", True]) - 9), st.integers(1, 255))
def test_a_damaged_byte_ends_in_a_typed_error_or_in_rows(at, change):
    """Nothing else: what pages hold is the decoder's business, and no checksum was written."""
    data = bytearray(FILES["dictionary", True])
    data[at] ^= change
    try:
        file = opened(bytes(data))
        for rows in file.rows_between(["id", "kind", "name"], 0, 900, 1100, batch_rows=64):
            assert rows.columns.num_rows == rows.length
    except DataFileError as error:
        assert error.path == "a.parquet"


def test_an_index_that_does_not_fit_the_pages_is_not_believed(monkeypatch, excerpts):
    file = opened(written(COLUMNS, write_page_index=True))
    plain = paging.map_pages

    def lying(*args, **options):
        found = plain(*args, **options)
        begins = max(row for row in found.rows if row <= 1500)
        return replace(found, rows=[row + (row == begins) for row in found.rows])

    monkeypatch.setattr(paging, "map_pages", lying)
    found = rows_of(file, ["id"], 0, 1500, 1600, 50)
    assert found.equals(COLUMNS.select(["id"]).slice(1500, 100))
    assert excerpts == [False]


def test_writers_of_other_engines(excerpts, tmp_path):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    names = ["id", "small", "kind", "name", "real", "day"]
    table = COLUMNS.select(names)
    polars.from_arrow(table).write_parquet(tmp_path / "p.parquet", data_page_size=700)
    duckdb.from_arrow(table).write_parquet(str(tmp_path / "d.parquet"))
    for name in ("p", "d"):
        file = opened((tmp_path / f"{name}.parquet").read_bytes())
        found = rows_of(file, names, 0, 777, 1555, 300)
        assert found.cast(table.schema).equals(table.slice(777, 778)), name
    assert excerpts == [True, True]


def test_pages_of_uneven_columns_stay_beside_each_other():
    """Pages of one column hold ten rows, of another all of them."""
    texts = np.array([f"{i:04d}" * 40 for i in range(ROWS)])
    table = pa.table({"wide": texts, "narrow": pa.array(np.arange(ROWS) // 500, pa.int8())})
    file = opened(written(table, use_dictionary=False, write_batch_size=1))
    for start in (3, 499, 501, 1998):
        found = rows_of(file, ["narrow", "wide"], 0, start, start + 2, 64)
        assert found.to_pylist() == table.select(["narrow", "wide"]).slice(start, 2).to_pylist()
