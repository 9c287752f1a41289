"""`spark.read.format("lazydelta")`: the rows of the reader in this process, read by executors."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from lazydelta import Table
from lazydelta.spark import register
from tests.unit.changes.support import FeedTable


def mapped(name, kind, number, physical, *, nullable=True):
    """Return a field of a schema with column mapping."""
    names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": names}


def nested(number):
    parts = [mapped("x", "integer", number, "x", nullable=False)]
    return {"type": "struct", "fields": [*parts, mapped("y", "string", number + 1, "y")]}


TYPES = {
    "id": "long",
    "byte": "byte",
    "real": "float",
    "price": "decimal(12,3)",
    "raw": "binary",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "ok": "boolean",
    "point": nested(50),
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
    "scores": {
        "type": "map",
        "keyType": "string",
        "valueType": nested(60),
        "valueContainsNull": True,
    },
    "day": "date",
}
POINT = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.string())])


def every_type(directory):
    """Build a table with a column of each type, physical names, a deleted row and a partition."""
    table = FeedTable(directory, partition_by=["day"], column_mapping="name")
    fields = [
        mapped(name, kind, number, f"col-{name}", nullable=name != "id")
        for number, (name, kind) in enumerate(TYPES.items(), 1)
    ]
    table.log.metadata = table.metadata(fields=fields)["metaData"]
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678)  # noqa: DTZ001 - both kinds of column take it
    columns = {
        "col-id": pa.array([1, 2, 3], pa.int64()),
        "col-byte": pa.array([-128, None, 127], pa.int8()),
        "col-real": pa.array([float("nan"), 0.5, None], pa.float32()),
        "col-price": pa.array([Decimal("1.234"), None, Decimal("-99.000")], pa.decimal128(12, 3)),
        "col-raw": pa.array([b"\0\xff", b"", None]),
        "col-at": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
        "col-local": pa.array([moment, moment, None], pa.timestamp("us")),
        "col-ok": pa.array([True, False, None]),
        "col-point": pa.array([{"x": 1, "y": "a"}, None, {"x": 3, "y": None}], POINT),
        "col-tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
        "col-scores": pa.array(
            [[("k", {"x": 1, "y": "b"})], [], None], pa.map_(pa.string(), POINT)
        ),
    }
    table.commit()
    day = {"values": {"col-day": "2026-01-01"}}
    table.commit(table.add("a", pa.table(columns), deleted=[1], **day))
    table.commit(table.add("b", pa.table(columns), values={"col-day": None}))
    return table


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return every_type(tmp_path_factory.mktemp("source")).directory


def load(spark, directory, **options):
    register(spark)
    reader = spark.read.format("lazydelta")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(directory))


def plain(table):
    """Return Arrow rows in an order, with values that compare."""
    return sorted(repr(row) for row in table.to_pylist())


def test_rows_of_every_type_are_those_of_the_reader_in_this_process(spark, directory):
    found = load(spark, directory)
    assert found.schema.names == list(TYPES)
    assert all(not field.metadata for field in found.schema), "ids are not for those who read"
    expected = Table.open(directory).scan().to_arrow()
    assert len(expected) == 5
    assert plain(found.toArrow()) == plain(expected)


def test_options_choose_version_columns_and_rows(spark, directory):
    found = load(spark, directory, versionAsOf=1, columns="day,id", where="id > 1")
    assert found.schema.simpleString() == "struct<day:date,id:bigint>"
    assert found.collect() == [(dt.date(2026, 1, 1), 3)]


def test_a_frame_that_is_filtered_in_several_ways_gives_each_answer(spark, directory):
    found = load(spark, directory)
    assert found.where("id = 3 AND day IS NULL").count() == 1
    assert found.count() == 5
    both = found.where("id = 1").unionAll(found.where("id = 2"))
    assert sorted(row.id for row in both.select("id").collect()) == [1, 1, 2]


def test_filters_of_the_query_prune_files_where_that_was_asked_for(spark, directory):
    key = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(key)
    register(spark, filter_pushdown=True)
    (directory / "b").rename(directory / "away")
    try:
        assert spark.conf.get(key) == "true"
        kept = spark.read.format("lazydelta").load(str(directory))
        kept = kept.where("day = '2026-01-01' AND (id = 3 OR price > 5) AND ok IS NULL")
        assert [row.id for row in kept.collect()] == [3], "the file of another day is not opened"
        with pytest.raises(PySparkException, match="DataFileNotFoundError"):
            spark.read.format("lazydelta").load(str(directory)).collect()
    finally:
        (directory / "away").rename(directory / "b")
        spark.conf.set(key, before)
        register(spark)


@pytest.mark.xfail(reason="Spark 4.1 and 4.2 keep pushed filters with the frame: ADR 0021")
def test_pushed_filters_may_be_on_by_default_once_spark_keeps_queries_apart(spark, directory):
    register(spark, filter_pushdown=True)
    try:
        found = spark.read.format("lazydelta").load(str(directory))
        assert found.where("id = 3 AND day IS NULL").count() == 1
        assert found.count() == 5
    finally:
        register(spark)


def test_sql_reads_it_through_a_view(spark, directory):
    register(spark)
    spark.sql(
        f"CREATE TEMPORARY VIEW trips USING lazydelta OPTIONS (path '{directory}', versionAsOf '1')"
    )
    assert spark.sql("SELECT max(id), count(*) FROM trips").collect() == [(3, 2)]
    spark.sql("DROP VIEW trips")


def test_mistakes_are_told_by_name(spark, directory, tmp_path):
    for options, text in (
        ({"account_key": "hush-hush"}, "account_key: there is no such option"),
        ({"columns": "id,nowhere"}, "ColumnNotFoundError: no column 'nowhere'"),
        ({"versionAsOf": "77"}, "cannot read version 77"),
    ):
        with pytest.raises(PySparkException, match=text) as caught:
            load(spark, directory, **options)
        assert "hush-hush" not in str(caught.value)
    with pytest.raises(PySparkException, match="no Delta table at"):
        load(spark, tmp_path / "nothing")
