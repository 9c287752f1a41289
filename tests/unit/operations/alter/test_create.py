"""Creating tables: version 0 as other engines read it, and the race for it."""

from __future__ import annotations

import threading
from datetime import date

import deltalake
import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import AlterationError, ConfigError, SchemaError, TableExistsError
from lazydelta.schema import PrimitiveType, StructField, StructType, schema_to_json
from tests.unit.operations.alter.support import same_rows

COLUMNS = "id long not null comment 'the key', day date, place struct<x: double, y: double>"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.columnMapping.mode": "name"},
        {"delta.columnMapping.mode": "id"},
        {"delta.enableDeletionVectors": "true", "delta.enableInCommitTimestamps": "true"},
        {"delta.checkpointPolicy": "v2"},
        {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"},
    ],
)
def test_a_new_table_is_read_and_filled(tmp_path, properties):
    table = Table.create(tmp_path, COLUMNS, partition_by=["day"], properties=properties)
    assert (table.version, same_rows(tmp_path)) == (0, [])
    data = [{"id": 1, "day": date(2026, 1, 1), "place": {"x": 1.0, "y": 2.0}}]
    table.write(pa.Table.from_pylist(data, schema=table.to_arrow().schema))
    assert same_rows(tmp_path) == data


def test_name_and_description(tmp_path):
    Table.create(tmp_path, COLUMNS, name="trips", description="of taxis", properties={"own": "er"})
    theirs = deltalake.DeltaTable(tmp_path)
    metadata = theirs.metadata()
    assert (metadata.name, metadata.description, metadata.configuration) == (
        "trips",
        "of taxis",
        {"own": "er"},
    )
    assert theirs.schema().fields[0].metadata == {"comment": "the key"}
    assert theirs.history()[0]["operation"] == "CREATE TABLE"
    info = Table.open(tmp_path).history()[0]
    assert (info.operation, info.raw["isBlindAppend"]) == ("CREATE TABLE", True)


@pytest.mark.parametrize(
    "columns",
    [
        "a long, b string comment 'c'",
        {"a": "bigint", "b": PrimitiveType("string")},
        pa.schema([("a", pa.int64()), pa.field("b", pa.string(), metadata={"comment": "c"})]),
        [pa.field("a", pa.uint32()), StructField("b", PrimitiveType("string"))],
        schema_to_json(
            StructType(
                (StructField("a", PrimitiveType("long")), StructField("b", PrimitiveType("string")))
            )
        ),
    ],
)
def test_columns_come_in_many_forms(tmp_path, columns):
    schema = Table.create(tmp_path, columns).snapshot().schema
    assert str(schema) == "struct<a: long, b: string>"
    commented = "comment" in str(columns) or isinstance(columns, pa.Schema)
    assert ("comment" in schema.fields[1].metadata) == commented


@pytest.mark.parametrize("columns", [5, b"a int", ["a"], [("a", "int")]])
def test_other_forms_are_refused(tmp_path, columns):
    with pytest.raises(SchemaError):
        Table.create(tmp_path, columns)
    assert not (tmp_path / "_delta_log").exists()


def test_a_table_is_not_created_twice(tmp_path):
    Table.create(tmp_path, COLUMNS)
    with pytest.raises(TableExistsError):
        Table.create(tmp_path, COLUMNS)
    Table.create(tmp_path, COLUMNS, mode="ignore")
    assert Table.open(tmp_path).version == 0
    with pytest.raises(AlterationError, match="requested id: long, existing id: long not null"):
        Table.create(tmp_path, "id long", mode="ignore")
    with pytest.raises(AlterationError, match="requested partitioned by day, existing by nothing"):
        Table.create(tmp_path, COLUMNS, partition_by=["day"], mode="ignore")
    with pytest.raises(ConfigError, match="must be one of error, ignore"):
        Table.create(tmp_path, COLUMNS, mode="overwrite")


def test_a_table_that_was_renamed_in_is_the_same_to_ignore(tmp_path):
    table = Table.create(tmp_path, "a int, b int", properties={"delta.columnMapping.mode": "name"})
    table.alter.rename_column("b", "c")
    Table.create(tmp_path, "a int, c int", mode="ignore")


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_of_many_creators_one_wins(tmp_path, mode):
    start, outcomes = threading.Barrier(6), []

    def create():
        start.wait()
        try:
            outcomes.append(Table.create(tmp_path, COLUMNS, mode=mode))
        except TableExistsError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tables = [found for found in outcomes if isinstance(found, Table)]
    assert len(outcomes) == 6
    assert len(tables) == (1 if mode == "error" else 6)
    assert Table.open(tmp_path).version == 0


def test_nothing_is_written_by_a_create_that_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        Table.create(tmp_path, COLUMNS, properties={"delta.checkpointInterval": 0})
    assert list(tmp_path.iterdir()) == []
