"""Row sources: every supported input type, and streams written incrementally."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from lazydelta.errors import ConfigError, SchemaMismatchError
from lazydelta.store import MemoryStore
from lazydelta.writer.row_sources import as_source

TABLE = pa.table({"x": [1, 2, 3], "t": ["a", None, "c"]})
ROWS = TABLE.to_pylist()


class OnlyArray:
    def __arrow_c_array__(self, requested_schema=None):
        return TABLE.to_batches()[0].__arrow_c_array__()


class OnlyStream:
    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__()


def dataset(tmp_path):
    pq.write_table(TABLE, tmp_path / "source.parquet")
    return pads.dataset(tmp_path / "source.parquet")


SOURCES = {
    "pyarrow-table": lambda _: TABLE,
    "pyarrow-batch": lambda _: TABLE.to_batches()[0],
    "pyarrow-reader": lambda _: TABLE.to_reader(),
    "pyarrow-dataset": dataset,
    "pyarrow-scanner": lambda where: dataset(where).scanner(),
    "arrow-stream": lambda _: OnlyStream(),
    "arrow-array": lambda _: OnlyArray(),
    "pandas": lambda _: pd.DataFrame({"x": [1, 2, 3], "t": ["a", None, "c"]}),
    "polars": lambda _: pl.DataFrame(ROWS),
    "polars-lazy": lambda _: pl.LazyFrame(ROWS).filter(pl.col("x") > 0),
    "duckdb": lambda _: duckdb.from_arrow(TABLE),
    "dict-of-columns": lambda _: {"x": [1, 2, 3], "t": ["a", None, "c"]},
    "generator-of-tables": lambda _: (TABLE.slice(at, 1) for at in range(3)),
    "generator-of-dicts": lambda _: ({"x": [row["x"]], "t": pa.array([row["t"]], pa.string())} for row in ROWS),
    "list-of-batches": lambda _: TABLE.to_batches(max_chunksize=2),
    "list-of-frames": lambda _: [pl.DataFrame(ROWS[:2]), pl.DataFrame(ROWS[2:])],
}  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_of_every_kind(tmp_path, kind):
    (tmp_path / "in").mkdir()
    ld.write(tmp_path / "t", SOURCES[kind](tmp_path / "in"))
    found = ld.Table.open(tmp_path / "t").to_arrow()
    assert found.to_pylist() == ROWS
    assert found.schema.equals(pa.schema({"x": pa.int64(), "t": pa.string()}))


def test_a_scan_of_another_table(tmp_path):
    ld.write(tmp_path / "a", TABLE)
    ld.write(tmp_path / "b", ld.Table.open(tmp_path / "a").scan("x > 1"))
    assert ld.Table.open(tmp_path / "b").to_arrow().to_pylist() == ROWS[1:]


def test_a_table_onto_itself(tmp_path):
    ld.write(tmp_path, TABLE)
    ld.write(tmp_path, ld.Table.open(tmp_path).scan("x > 1"), "overwrite")
    assert ld.Table.open(tmp_path).to_arrow().to_pylist() == ROWS[1:]


def test_an_index_with_a_name_is_a_column(tmp_path):
    frame = pd.DataFrame({"x": [1, 2]})
    ld.write(tmp_path / "a", frame.set_index(pd.Index([7, 8], name="k")))
    assert ld.Table.open(tmp_path / "a").to_arrow().to_pydict() == {"k": [7, 8], "x": [1, 2]}
    ld.write(tmp_path / "b", frame[frame.x > 1])  # row numbers are no column
    assert ld.Table.open(tmp_path / "b").to_arrow().to_pydict() == {"x": [2]}


def test_a_stream_is_written_incrementally():
    store = MemoryStore()
    table = ld.Table(store, ld.Config())
    before: list[int] = []

    def parts():
        for n in range(10):
            yield {"x": list(range(n * 10, n * 10 + 10))}
            before.append(sum(path.endswith(".parquet") for path in store._objects))

    options = ld.WriteOptions(row_group_rows=10, target_file_bytes=1, files_at_once=1)
    table.write(parts(), options=options)
    assert before == list(range(1, 11))


def test_large_batches_are_sliced():
    source = as_source(pa.table({"x": pa.array(range(600_000))}))
    assert [batch.num_rows for batch in source.batches] == [262_144, 262_144, 75_712]


@pytest.mark.parametrize(
    "data", [42, "text", b"bytes", None, [], iter(()), [1, 2], {"x": 1}, object()]
)
def test_unsupported_objects_are_refused(tmp_path, data):
    with pytest.raises(ConfigError, match=r"^data: "):
        ld.write(tmp_path, data)
    assert not list(tmp_path.iterdir())


def test_items_of_another_schema_are_refused_and_leave_no_file(tmp_path):
    parts = iter([{"x": [1]}, {"x": [2]}, {"x": ["text"]}])
    with pytest.raises(SchemaMismatchError, match="item 2"):
        ld.write(tmp_path, parts)
    assert not list(tmp_path.rglob("*.parquet"))


NULL_ITEMS = {
    "first": [None, "b", "c"],
    "middle": ["a", None, "c"],
    "last": ["a", "b", None],
    "several": [None, None, "c"],
}


@pytest.mark.parametrize("values", NULL_ITEMS.values(), ids=NULL_ITEMS.keys())
@pytest.mark.parametrize("exists", [False, True])
def test_an_item_of_nulls_has_the_type_of_the_others(tmp_path, values, exists):
    if exists:
        ld.write(tmp_path, {"x": [0], "t": ["z"]})
    ld.write(tmp_path, ({"x": [n], "t": [value]} for n, value in enumerate(values)), "append")
    found = ld.Table.open(tmp_path).to_arrow()
    assert found.schema.field("t").type == pa.string()
    assert sorted(map(str, found["t"].to_pylist())) == sorted(map(str, values + ["z"] * exists))


def test_nested_nulls_have_the_type_of_the_others(tmp_path):
    values = [{"a": [None], "b": None}, {"a": [1], "b": 2}, {"a": [], "b": None}, None]
    ld.write(tmp_path, ({"s": [value]} for value in values), "error")
    found = ld.Table.open(tmp_path).to_arrow()
    assert sorted(map(str, found["s"].to_pylist())) == sorted(map(str, values))


def test_an_untyped_column_of_new_rows_has_the_type_of_the_table(tmp_path):
    ld.write(tmp_path, {"x": [0], "t": ["z"]})
    ld.write(tmp_path, ({"x": [n], "t": [None]} for n in range(3)), "append")
    assert ld.Table.open(tmp_path).to_arrow()["t"].null_count == 3


def test_a_stream_is_buffered_until_its_columns_have_types(monkeypatch):
    monkeypatch.setattr("lazydelta.writer.tuning.BUFFERED_BYTES", 100)
    taken = []

    def items(values):
        for value in values:
            taken.append(value)
            yield {"x": [1] * 4, "t": [value] * 4}

    as_source(items(["a", "b"]))
    assert len(taken) == 1
    taken.clear()
    source = as_source(items([None] * 10))
    assert len(taken) < 10
    assert sum(batch.num_rows for batch in source.batches) == 40
    with pytest.raises(SchemaMismatchError, match="item 9"):
        list(as_source(items([None] * 9 + ["late"])).batches)
