"""A Parquet file put together of pieces has the bytes that a single writer would have written."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lazydelta.parquet import JoinedFile, Piece

_TEXTS = st.text(alphabet="abé\0", max_size=5)
_KINDS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-3, 3),
    pa.bool_(): st.booleans(),
    pa.float64(): st.one_of(st.floats(), st.just(math.nan)),
    pa.string(): _TEXTS,
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.integers(-3, 3).map(lambda day: date.fromordinal(719_163 + day)),
    pa.timestamp("us", "UTC"): st.integers(0, 2**50),
    pa.decimal128(20, 2): st.integers(-99, 99).map(lambda n: Decimal(n).scaleb(-2)),
    pa.list_(pa.field("element", pa.string())): st.lists(st.none() | _TEXTS, max_size=3),
    pa.map_(pa.string(), pa.string()): st.lists(st.tuples(_TEXTS, st.none() | _TEXTS), max_size=2),
    pa.struct([("a", pa.int64()), ("b", pa.list_(pa.field("element", pa.int64())))]): (
        st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(-5, 5),
                "b": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
            }
        )
    ),
}


@st.composite
def tables(draw):
    """Draw some columns of one length; every value may be null, and some columns are throughout."""
    rows = draw(st.integers(0, 40))
    kinds = draw(st.lists(st.sampled_from(list(_KINDS)), min_size=1, max_size=5))
    columns = {}
    for at, kind in enumerate(kinds):
        known = draw(st.lists(st.none() | _KINDS[kind], min_size=1, max_size=6))
        values = draw(st.lists(st.sampled_from(known), min_size=rows, max_size=rows))
        columns[f"c{at}"] = pa.array(values, kind)
    return pa.table(columns)


def leaves(schema):
    empty = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), empty)
    footer = pq.read_metadata(pa.BufferReader(empty.getvalue()))
    return [footer.schema.column(at).path for at in range(footer.num_columns)]


@st.composite
def cases(draw):
    """Draw a table, how it is cut into row groups and pieces, and how it is encoded."""
    table = draw(tables())
    cuts = sorted(draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    groups = [
        table.slice(start, end - start)
        for start, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True)
    ]
    seams = sorted(draw(st.sets(st.integers(1, table.num_columns), max_size=3)))
    names = table.schema.names
    columns = [names[a:b] for a, b in zip([0, *seams], [*seams, len(names)], strict=True) if a < b]
    paths = leaves(table.schema)
    some = st.lists(st.sampled_from(paths), unique=True)
    options = {
        "compression": draw(st.sampled_from(["none", "snappy", "zstd"])),
        "use_dictionary": draw(some),
        "write_statistics": draw(some),
        "write_page_index": draw(st.booleans()),
        "write_page_checksum": draw(st.booleans()),
        "data_page_size": draw(st.sampled_from([1, 64, 1 << 20])),
        "write_batch_size": draw(st.integers(1, 20)),
        "store_schema": draw(st.booleans()),
    }
    return groups, columns, options


def by_one_writer(groups, options):
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, groups[0].schema, **options) as writer:
        for group in groups:
            writer.write_table(group, group.num_rows or None)
    return sink.getvalue()


def joined(groups, columns, options):
    sink = pa.BufferOutputStream()
    file = JoinedFile(sink, groups[0].schema, options)
    for group in groups:
        file.append([Piece.encoded(group.select(names), options) for names in columns])
    footer = file.close()
    return sink.getvalue(), footer


def wide(columns, groups):
    table = pa.table({f"c{at}": pa.array([at, None, at]) for at in range(columns)})
    names = table.schema.names
    return [table] * groups, [names[:7], names[7:]], {"write_page_index": True}


@given(cases())
@settings(max_examples=150, deadline=None)
@example(wide(columns=20, groups=20))
@example(wide(columns=8, groups=200))
def test_the_bytes_are_those_of_a_single_writer(case):
    groups, columns, options = case
    alone = by_one_writer(groups, options)
    together, footer = joined(groups, columns, options)
    assert together.equals(alone)
    assert pq.read_metadata(pa.BufferReader(footer)).equals(
        pq.read_metadata(pa.BufferReader(alone))
    )


OPTIONS = {"write_page_index": True, "data_page_size": 64, "write_batch_size": 8}


def test_a_piece_may_stand_in_many_row_groups_and_files():
    table = pa.table({"a": pa.array(range(50)), "b": pa.nulls(50, pa.string())})
    nulls = Piece.encoded(table.select(["b"]), OPTIONS)
    files = []
    for _ in range(2):
        sink = pa.BufferOutputStream()
        file = JoinedFile(sink, table.schema, OPTIONS)
        for _ in range(3):
            file.append([Piece.encoded(table.select(["a"]), OPTIONS), nulls])
        file.close()
        files.append(sink.getvalue())
    assert all(file.equals(by_one_writer([table] * 3, OPTIONS)) for file in files)


def test_much_is_written_some_at_a_time(monkeypatch):
    monkeypatch.setattr("lazydelta.parquet.joined._AT_ONCE", 7)
    table = pa.table({"a": pa.array(range(50)), "b": pa.array(map(str, range(50)))})
    together, _ = joined([table, table], [["a"], ["b"]], OPTIONS)
    assert together.equals(by_one_writer([table, table], OPTIONS))


def test_a_file_without_row_groups_has_its_schema():
    schema = pa.schema([("a", pa.int64())])
    sink = pa.BufferOutputStream()
    JoinedFile(sink, schema, OPTIONS).close()
    assert pq.read_table(pa.BufferReader(sink.getvalue())).equals(schema.empty_table())


def test_pieces_of_different_length_are_no_row_group():
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    pieces = [
        Piece.encoded(table.select(["a"]), OPTIONS),
        Piece.encoded(table.select(["b"]).slice(1), OPTIONS),
    ]
    file = JoinedFile(pa.BufferOutputStream(), table.schema, OPTIONS)
    with pytest.raises(ValueError, match=r"pieces of \[1, 2\] rows"):
        file.append(pieces)


@pytest.mark.parametrize("groups", [0, 2])
def test_a_piece_is_one_row_group(groups):
    table = pa.table({"a": [1]})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema) as writer:
        for _ in range(groups):
            writer.write_table(table)
    with pytest.raises(ValueError, match=f"one row group, not {groups}"):
        Piece.of(sink.getvalue())


def _by_pyarrow(path):
    import pyarrow.dataset as ds

    return ds.dataset(path).to_table(filter=ds.field("id") == 777)


def _by_duckdb(path):
    import duckdb

    found = duckdb.sql(f"select * from '{path}' where id = 777").arrow()
    return found if isinstance(found, pa.Table) else found.read_all()


def _by_polars(path):
    import polars as pl

    return pl.scan_parquet(path).filter(pl.col("id") == 777).collect().to_arrow()


def _by_deltalake(path):
    import deltalake

    table = deltalake.convert_to_deltalake(str(path.parent)) or deltalake.DeltaTable(path.parent)
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t where id = 777")
    return pa.table(found.read_all())


@pytest.mark.parametrize("read", [_by_pyarrow, _by_duckdb, _by_polars, _by_deltalake])
def test_every_engine_finds_a_row_by_bounds_of_row_groups_and_pages(tmp_path, read):
    table = pa.table(
        {
            "id": pa.array(range(1000)),
            "text": pa.array([f"row {at}" for at in range(1000)]),
            "many": pa.array([[at, None] for at in range(1000)]),
        }
    )
    path = tmp_path / "joined.parquet"
    groups = [table.slice(start, 250) for start in range(0, 1000, 250)]
    together, _ = joined(groups, [["id"], ["text", "many"]], OPTIONS)
    path.write_bytes(together)
    found = read(path)
    assert found.select(["id", "text", "many"]).to_pylist() == table.slice(777, 1).to_pylist()
