"""`spark.read.format("lazydelta")`: the rows of the reader in this process, read by executors."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from inspect import signature

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta import Table
from lazydelta.spark import register
from tests.unit.changes.support import FeedTable
from tests.unit.scan.read.tables import Rows, field

pytestmark = pytest.mark.spark4


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
    found = load(spark, directory, versionAsOf=1, columns="Day,ID", where="id > 1")
    assert found.schema.simpleString() == "struct<day:date,id:bigint>"
    assert found.collect() == [(dt.date(2026, 1, 1), 3)]


def test_each_filter_of_one_frame_returns_its_own_rows(spark, directory):
    found = load(spark, directory)
    assert found.where("id = 3 AND day IS NULL").count() == 1
    assert found.count() == 5
    both = found.where("id = 1").unionAll(found.where("id = 2"))
    assert sorted(row.id for row in both.select("id").collect()) == [1, 1, 2]


def test_queries_of_one_frame_do_not_share_filters_whatever_the_session(spark, directory):
    key = "spark.sql.python.filterPushdown.enabled"
    from pyspark.sql import datasource

    if not hasattr(datasource, "Filter"):
        pytest.skip("Spark pushes filters to Python from 4.1 on")
    before = spark.conf.get(key)
    spark.conf.set(key, "true")
    try:
        found = load(spark, directory)
        assert found.where("id = 3 AND day IS NULL").count() == 1
        assert found.count() == 5
    finally:
        spark.conf.set(key, before)
    assert "filter_pushdown" not in signature(register).parameters, "it gave wrong rows"


def test_sql_reads_it_through_a_view(spark, directory):
    register(spark)
    spark.sql(
        f"CREATE TEMPORARY VIEW trips USING lazydelta OPTIONS (path '{directory}', versionAsOf '1')"
    )
    assert spark.sql("SELECT max(id), count(*) FROM trips").collect() == [(3, 2)]
    spark.sql("DROP VIEW trips")


def test_sql_reads_and_writes_a_table_of_the_catalog(spark, tmp_path):
    url = tmp_path / "a table%20"
    ld.write(url, {"id": [1, 2, 3]})
    register(spark)
    spark.sql(
        f"CREATE TABLE trips USING lazydelta OPTIONS (path '{url}', columns 'id', where 'id > 1') "
        "COMMENT 'ours' TBLPROPERTIES ('team' = 'a', 'delta.appendOnly' = 'false')"
    )
    try:
        assert spark.sql("SELECT * FROM trips").collect() == [(2,), (3,)]
        ld.write(url, {"id": [4]}, "append")
        rows = spark.table("trips")
        assert rows.agg({"id": "max"}).collect() == [(4,)], "a query reads the latest version"
        copy = tmp_path / "copy"
        executors.write(rows, copy)
        stored = Table.open(copy).snapshot().metadata.schema_string
        assert "lazydelta.options" not in stored, "options of the catalog do not leak into tables"
    finally:
        spark.sql("DROP TABLE trips")
    assert Table.open(url).version == 1, "dropping it leaves the files alone"


def test_a_location_names_a_table_of_the_catalog_and_options_are_still_validated(spark, tmp_path):
    ld.write(tmp_path, {"id": [1]})
    register(spark)
    spark.sql(f"CREATE TABLE located USING lazydelta LOCATION '{tmp_path}'")
    try:
        assert spark.sql("SELECT count(*) FROM located").collect() == [(1,)]
        spark.sql("INSERT INTO located VALUES (5)")
        assert sorted(row.id for row in spark.table("located").collect()) == [1, 5]
    finally:
        spark.sql("DROP TABLE located")
    with pytest.raises(PySparkException, match="wherever: lazydelta has no such option"):
        spark.sql(f"CREATE TABLE bad USING lazydelta OPTIONS (path '{tmp_path}', wherever 'x')")


def test_mistakes_are_named_in_the_error(spark, directory, tmp_path):
    for options, message in (
        ({"account_key": "hush-hush"}, "account_key: lazydelta has no such option"),
        ({"columns": "id,nowhere"}, "ColumnNotFoundError: no column 'nowhere'"),
        ({"columns": "idd"}, r"no column 'idd' \(did you mean 'id'\?\)"),
        ({"versionAsOf": "77"}, "cannot read version 77"),
    ):
        with pytest.raises(PySparkException, match=message) as caught:
            load(spark, directory, **options)
        assert "hush-hush" not in str(caught.value)
    with pytest.raises(PySparkException, match="no Delta table at"):
        load(spark, tmp_path / "nothing")


def check_one_line(error, line):
    """Check that the message of a Spark exception has our error as one line, and no traceback."""
    assert re.search(rf"^(?:.*: )?lazydelta\.errors\.[\w.]*{line}", str(error), re.MULTILINE)
    assert "Traceback" not in str(error)
    assert ".py" not in str(error)


def test_errors_are_one_line_without_a_traceback(spark, tmp_path):
    with pytest.raises(PySparkException) as caught:
        load(spark, tmp_path / "nothing")
    check_one_line(caught.value, "TableNotFoundError: no Delta table at")
    ld.write(tmp_path, {"id": [1]})
    with pytest.raises(PySparkException) as caught:
        load(spark, tmp_path, where="nowhere = 1").collect()
    check_one_line(caught.value, "ColumnNotFoundError: no column 'nowhere'")
    rows = spark.range(1).selectExpr("id AS other")
    with pytest.raises(PySparkException) as caught:
        rows.write.format("lazydelta").mode("append").save(str(tmp_path))
    check_one_line(caught.value, "SchemaMismatchError: ")
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    for frame in (load(spark, tmp_path), executors.read(spark, tmp_path, path="arrow")):
        with pytest.raises(PySparkException) as caught:
            frame.collect()
        check_one_line(caught.value, "DataFileNotFoundError: ")


def test_faults_of_other_code_keep_their_traceback(spark, tmp_path):
    def fail(batches):
        raise ValueError("mine")

    with pytest.raises(PySparkException, match="Traceback"):
        spark.range(1).mapInArrow(fail, "id long").collect()


@pytest.mark.parametrize("kind", ["format", "read"])
def test_null_variants_are_collected_as_arrow(spark, tmp_path, kind):
    one = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}
    stored = pa.struct([(name, pa.binary()) for name in one])
    nested = {"type": "array", "elementType": "variant", "containsNull": True}
    rows = {
        "id": pa.array([1, 2, 3]),
        "v": pa.array([one, None, one], stored),
        "list": pa.array([[one], [None], None], pa.list_(stored)),
    }
    fields = [field("id", "long"), field("v", "variant"), field("list", nested)]
    made = Rows(tmp_path, fields, features=("variantType",)).file("f.parquet", pa.table(rows))
    made.open()
    found = load(spark, tmp_path) if kind == "format" else executors.read(spark, tmp_path)
    first, second, third = executors.to_arrow(found).sort_by("id").to_pylist()
    assert first == {"id": 1, "v": one, "list": [one]}
    assert second == {"id": 2, "v": None, "list": [None]}
    assert third == {"id": 3, "v": one, "list": None}
    assert executors.to_arrow(found.where("id > 9")).schema.names == ["id", "v", "list"]
