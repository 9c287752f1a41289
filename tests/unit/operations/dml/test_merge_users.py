"""MERGE as users of deltalake and Polars call it; results are read with other engines."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lazydelta as ld
from lazydelta.errors import (
    ColumnNotFoundError,
    ConfigError,
    ConstraintViolationError,
    PredicateError,
)

VECTORS = {"delta.enableDeletionVectors": "true"}


def upsert(table, source, on, **options):
    merge = table.merge(source, on, **options).when_matched_update("*")
    return merge.when_not_matched_insert("*").execute().metrics


def rows_of(table, key="id"):
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row[key])


def test_deltalake_and_polars_read_the_result(tmp_path):
    write_deltalake(tmp_path, pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"], "v": [1, 2, 3]}),
                    partition_by=["p"])  # fmt: skip
    table = ld.Table.open(tmp_path)
    source = pl.DataFrame({"id": [2, 9], "p": ["b", "c"], "v": [20, 90]})
    for frame in (source, source.lazy()):
        upsert(table, frame, "t.id = s.id")
    table.merge(source, "t.id = s.id").when_not_matched_by_source_delete("t.id = 3").execute()
    expected = [
        {"id": 1, "p": "a", "v": 1},
        {"id": 2, "p": "b", "v": 20},
        {"id": 9, "p": "c", "v": 90},
    ]
    assert rows_of(table) == expected
    assert DeltaTable(tmp_path).to_pyarrow_table().sort_by("id").to_pylist() == expected
    assert pl.read_delta(str(tmp_path)).sort("id").to_dicts() == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (date(2022, 2, 1), pa.date32()),
        (datetime(2022, 2, 1), pa.timestamp("us")),  # noqa: DTZ001 - without a zone on purpose
        (datetime(2022, 2, 1, tzinfo=UTC), pa.timestamp("us", "UTC")),
        ("foo bar", pa.string()),
        (Decimal("150.5"), pa.decimal128(6, 1)),
        (True, pa.bool_()),
    ],
)
def test_an_upsert_by_a_partition_column_is_idempotent(tmp_path, value, kind):
    source = pa.table({"part": pa.array([value], kind), "foo": ["hello"]})
    table = ld.Table.create(tmp_path, source.schema, partition_by=["part"], properties=VECTORS)
    assert upsert(table, source, "s.part = t.part")["numTargetRowsInserted"] == 1
    again = upsert(table, source, "s.part = t.part AND t.foo = s.foo")
    assert (again["numTargetRowsUpdated"], again["numTargetRowsInserted"]) == (1, 0)
    assert table.to_arrow().to_pylist() == source.to_pylist()


def test_special_names_are_quoted_with_backticks(tmp_path):
    ld.write(tmp_path, {"the id": [1, 2], "y--1": [4, 5], "fooBar": ["a", "b"], "a.b": [0, 0]},
             properties={"delta.columnMapping.mode": "name"})  # fmt: skip
    table = ld.Table.open(tmp_path)
    source = {"the id": [2], "y--1": [50], "fooBar": ["x"], "a.b": [7]}
    table.merge(source, "t.`the id` = s.`the id` AND t.foobar != s.fooBar").when_matched_update(
        {"y--1": "s.`y--1` + 1", "a.b": "s.`a.b`", "`fooBar`": ld.col(["s", "fooBar"])}
    ).execute()
    assert rows_of(table, "the id")[1] == {"the id": 2, "y--1": 51, "fooBar": "x", "a.b": 7}


@pytest.mark.parametrize("name", ['"fooBar"', '"foobar"', "`fooBar`"])
def test_a_name_after_an_alias_may_have_double_quotes(tmp_path, name):
    ld.write(tmp_path, {"id": [1, 2], "fooBar": ["a", "b"]})
    table = ld.Table.open(tmp_path)
    merge = table.merge({"id": [8, 9], "fooBar": ["b", "c"]}, f"t.{name} = s.{name}")
    merge.when_matched_update({"id": f's."id" + length(s.{name})'}).execute()
    assert rows_of(table) == [{"id": 1, "fooBar": "a"}, {"id": 9, "fooBar": "b"}]
    ld.sql(f"UPDATE x SET x.{name} = concat(x.{name}, '\"') WHERE x.{name} = 'a'", {"x": table})
    ld.sql(f"DELETE FROM x WHERE x.{name} = 'b'", {"x": table})
    assert rows_of(table) == [{"id": 1, "fooBar": 'a"'}]


def test_a_star_leaves_out_columns(tmp_path):
    ld.write(tmp_path, {"id": [1, 2], "name": ["a", "b"], "v": [1, 2]})
    table = ld.Table.open(tmp_path)
    merge = table.merge({"id": [2, 3], "v": [20, 30]}, "t.id = s.id")
    merge = merge.when_matched_update("*", except_columns="name")
    merge.when_not_matched_insert("*", except_columns=["NAME", "v"]).execute()
    assert rows_of(table) == [
        {"id": 1, "name": "a", "v": 1},
        {"id": 2, "name": "b", "v": 20},
        {"id": 3, "name": None, "v": None},
    ]
    with pytest.raises(ColumnNotFoundError, match="no column 'nope'; it is in except_columns"):
        merge.when_matched_update("*", except_columns=["nope"]).execute()
    with pytest.raises(ConfigError, match='except_columns: needs "\\*"'):
        merge.when_matched_update({"v": "s.v"}, except_columns=["name"])


def test_conditions_on_the_table_may_be_booleans_and_lists(tmp_path):
    ld.write(tmp_path, {"id": [1, 2, 3], "active": [True, False, True], "p": [1, 2, 3]},
             partition_by=["p"])  # fmt: skip
    table = ld.Table.open(tmp_path)
    source = {"id": [1, 2, 3]}
    for on, ids in (
        ("t.id = s.id AND t.active", [1, 3]),
        ("t.id = s.id AND t.active = true AND t.p IN (1, 2)", [1]),
        ("t.id = s.id AND NOT t.active", [2]),
    ):
        merge = table.merge(source, on, dry_run=True).when_matched_delete()
        assert merge.execute().metrics["numTargetRowsDeleted"] == len(ids)


def test_not_null_columns_and_casts_of_the_source(tmp_path):
    table = ld.Table.create(tmp_path, "id INT NOT NULL, flag BOOLEAN NOT NULL, price DOUBLE")
    good = {"id": [1, 2], "flag": [True, False], "price": [1, 2]}
    assert upsert(table, good, "t.id = s.id")["numTargetRowsInserted"] == 2
    bad = pa.table({"id": [3], "flag": pa.array([None], pa.bool_()), "price": [1.0]})
    with pytest.raises(ConstraintViolationError, match="flag"):
        upsert(table, bad, "t.id = s.id")
    with pytest.raises(PredicateError, match="string, not double"):
        upsert(table, {**good, "price": ["1", "2"]}, "t.id = s.id")
    too_large = {**good, "id": [2**40, 2], "price": [5.0, 5.0]}
    with pytest.raises(ConstraintViolationError, match="cannot be computed"):
        upsert(table, too_large, "t.id = s.id")


def test_schema_evolution_of_a_partitioned_table(tmp_path):
    ld.write(tmp_path, {"id": [1], "part": ["a"]}, partition_by=["part"])
    table = ld.Table.open(tmp_path)
    source = pa.table({
        "id": [1, 2], "part": ["a", "b"],
        "ts": pa.array([123_000, 456_000], pa.timestamp("ns", "UTC")),
    })  # fmt: skip
    upsert(table, source, "t.id = s.id", merge_schema=True)
    assert str(table.schema.get("ts").type) == "timestamp"
    assert [row["ts"].microsecond for row in rows_of(table)] == [123, 456]
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == 2


def test_lists_with_null_elements_are_kept(tmp_path):
    kind = pa.list_(pa.int32())
    ld.write(tmp_path, {"id": ["row1", "row2"], "b": pa.array([[1, None], None], kind)})
    table = ld.Table.open(tmp_path)
    source = {"id": ["row1"], "b": pa.array([[-9999, None]], kind)}
    table.merge(source, "t.id = s.id").when_matched_update({"b": "s.b"}).execute()
    assert [row["b"] for row in rows_of(table)] == [[-9999, None], None]


def test_types_widen_where_the_table_allows_it(tmp_path):
    ld.write(tmp_path, {"id": pa.array([1, 2], pa.int32())},
             properties={"delta.enableTypeWidening": "true"})  # fmt: skip
    table = ld.Table.open(tmp_path)
    upsert(table, {"id": [2**40]}, "t.id = s.id", merge_schema=True)
    assert [row["id"] for row in rows_of(table)] == [1, 2, 2**40]
