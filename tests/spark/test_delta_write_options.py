"""Options of Delta's writer: through `lazydelta.spark.write`, and through the format."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as t

import lazydelta as ld
import lazydelta.spark as lds
from lazydelta.errors import ConfigError, SchemaMismatchError, TableExistsError
from lazydelta.spark.source import LazyDeltaSource


@pytest.fixture
def rows(spark):
    return spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, day string")


@pytest.fixture
def url(rows, tmp_path):
    url = str(tmp_path / "t")
    lds.write(rows, url, "errorifexists", options={"partitionBy": "day"})
    return url


def content(url):
    return sorted(tuple(row.values()) for row in ld.Table.open(url).to_arrow().to_pylist())


def test_save_modes_are_those_of_spark(rows, url):
    assert ld.Table.open(url).snapshot().partition_columns == ("day",)
    with pytest.raises(TableExistsError):
        lds.write(rows, url, "ErrorIfExists")
    assert lds.write(rows, url, "ignore").skipped
    assert lds.write(rows, url, "append", options={"dataChange": True}).version == 1


def test_a_dynamic_overwrite_replaces_the_partitions_of_its_rows(spark, rows, url):
    dynamic = {"partitionOverwriteMode": "dynamic"}
    new = spark.createDataFrame([(7, "a"), (8, None)], "id bigint, day string")
    lds.write(new, url, "overwrite", options=dynamic)
    assert set(content(url)) == {(7, "a"), (8, None), (2, "b")}
    lds.write(rows.where("false"), url, "overwrite", options=dynamic)
    assert len(content(url)) == 3


def test_the_session_has_defaults_of_options(spark, rows, url):
    new = spark.createDataFrame([(7, "a", 1)], "id bigint, day string, x int")
    settings = {
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.databricks.delta.schema.autoMerge.enabled": "true",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        lds.write(new, url, "overwrite")
        assert content(url) == [(2, "b", None), (7, "a", 1)]
        lds.sql(spark, f"INSERT OVERWRITE delta.`{url}` VALUES (8, 'b', 2)")
        assert content(url) == [(7, "a", 1), (8, "b", 2)]
        lds.write(rows, url, "overwrite", options={"partitionOverwriteMode": "static"})
        assert content(url) == [(1, "a", None), (2, "b", None)]
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_rows_and_schema_are_replaced_by_options(spark, rows, url):
    part = {"replaceWhere": "day = 'a'", "userMetadata": "why"}
    lds.write(
        rows.where("day = 'a'").selectExpr("id + 1 AS id", "day"), url, "overwrite", options=part
    )
    assert content(url) == [(2, "a"), (2, "b")]
    assert ld.Table.open(url).history(1)[0].raw["userMetadata"] == "why"
    wider = rows.withColumn("x", rows.id)
    with pytest.raises(SchemaMismatchError):
        lds.write(wider, url)
    lds.write(wider, url, options={"mergeSchema": "true"})
    lds.write(
        rows.selectExpr("id AS z", "day"), url, "overwrite", options={"overwriteSchema": True}
    )
    assert ld.Table.open(url).columns == ("z", "day")


def test_a_transaction_is_applied_once(rows, url):
    txn = {"txnAppId": "job", "txnVersion": 3}
    assert lds.write(rows, url, options=txn).version == 1
    assert lds.write(rows, url, options=txn).already_applied


@pytest.mark.spark4
@pytest.mark.long
def test_files_have_a_maximum_of_rows(spark, tmp_path):
    numbers = spark.range(10).coalesce(1)
    limit = {"maxRecordsPerFile": 3}
    assert lds.write(numbers, str(tmp_path / "a"), options=limit).files_added == 4
    lds.register(spark)
    numbers.write.format("lazydelta").options(**limit).mode("append").save(str(tmp_path / "b"))
    assert ld.Table.open(tmp_path / "b").snapshot().num_files == 4


def test_table_properties_are_options(rows, tmp_path):
    properties = {"delta.enableChangeDataFeed": True}
    lds.write(rows, tmp_path, options=properties)
    stored = ld.Table.open(tmp_path).metadata.configuration
    assert stored == {"delta.enableChangeDataFeed": "true"}


@pytest.mark.spark4
def test_table_properties_are_no_options_of_the_format():
    with pytest.raises(ConfigError, match="the option properties takes them"):
        LazyDeltaSource({"path": "/x", "delta.enablechangedatafeed": "true"}).writer(
            t.StructType().add("id", "long"), overwrite=True
        )


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({"dataChange": False}, {}, "dataChange: false is not supported"),
        ({"mergeschem": True}, {}, r"no such option; did you mean mergeSchema\?"),
        ({"versionAsOf": 1}, {}, "versionAsOf: pins a version, which can only be read"),
        ({"columns": "id"}, {}, "columns: is an option of reads"),
        ({"partitionOverwriteMode": "all"}, {}, "must be static or dynamic"),
        ({"replaceWhere": "id = 1"}, {"where": "id = 2"}, "as an argument and as an option"),
        ({"path": "/x"}, {}, "is an argument of write"),
    ],
)
def test_a_wrong_option_is_refused(rows, url, options, arguments, message):
    with pytest.raises(ConfigError, match=message):
        lds.write(rows, url, "overwrite", options=options, **arguments)


@pytest.mark.spark4
def test_the_format_says_what_takes_an_option_that_it_cannot(tmp_path):
    options = {"path": str(tmp_path), "partitionOverwriteMode": "dynamic"}
    with pytest.raises(ConfigError, match=r"dynamic needs lazydelta\.spark\.write"):
        LazyDeltaSource(options).writer(t.StructType().add("id", "long"), overwrite=True)


@pytest.mark.spark4
def test_the_format_reads_a_version_of_a_path(spark, rows, url):
    lds.register(spark)
    lds.write(rows, url)
    reader = spark.read.format("lazydelta")
    assert reader.load(f"{url}@v0").count() == 2
    with pytest.raises(PySparkException, match="must be one location"):
        reader.load([url, url]).count()


@pytest.mark.spark4
@pytest.mark.long
def test_the_format_can_have_the_name_of_deltas(spark, url):
    lds.register(spark, name="delta")
    assert spark.read.format("delta").load(url).count() == 2
