"""`DeltaTable`: the methods of delta.tables, with SQL strings and columns."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import functions as f
from pyspark.sql import types as t

import lazydelta as ld
import lazydelta.spark as lds
from lazydelta.errors import (
    ArgumentError,
    ConfigError,
    DeltaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    UnsupportedOperationError,
)
from lazydelta.spark import DeltaTable
from lazydelta.spark.column_text import column_sql
from lazydelta.spark.delta_api import IdentityGenerator
from lazydelta.spark.spark_releases import IS_SPARK_4, collect_arrow, error_condition

ROWS = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


@pytest.fixture
def url(tmp_path):
    url = str(tmp_path / "t")
    keys, values = zip(*ROWS, strict=True)
    ld.write(url, {"key": list(keys), "value": list(values)})
    return url


@pytest.fixture
def table(spark, url):
    return DeltaTable.forPath(spark, url)


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.spark4
def test_rows_are_deleted_by_a_string_and_by_a_column(table, url):
    table.delete("key = 'a'")
    table.delete(f.col("key") == f.lit("b"))
    table.alias("x").delete("x.value = 3")
    assert rows(table.toDF()) == ROWS[3:]
    table.delete()
    assert ld.Table.open(url).count() == 0


@pytest.mark.spark4
@pytest.mark.long
def test_rows_are_updated_by_strings_and_by_columns(table):
    table.update("key = 'a'", {"value": "value + 10"})
    table.update(f.col("value").isin(2, 3), {"value": f.col("value") * 100})
    table.alias("x").updateExpr("x.key = 'd'", {"x.value": "0"})
    assert rows(table.toDF()) == [("a", 11), ("b", 200), ("c", 300), ("d", 0)]
    table.update(set={"value": f.lit(5)})
    assert {value for _, value in rows(table.toDF())} == {5}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda table: table.delete(1), "condition must be a Spark SQL Column or a string"),
        (lambda table: table.update("a = 1"), "'set' cannot be None"),
        (lambda table: table.update(set=1), "'set' must be a dict"),
        (lambda table: table.update(set={1: "a"}), "Keys of dict in 'set' must contain only"),
        (lambda table: table.update(set={"a": 1}), "Values of dict in 'set' must contain only"),
        (lambda table: table.merge(1, "a = b"), "'source' in merge must be DataFrame"),
        (lambda table: table.restoreToVersion("0"), "version needs to be an int"),
        (lambda table: table.restoreToTimestamp("05/04/1999"), "cannot be converted to a valid"),
        (lambda table: table.upgradeTableProtocol(1, "3"), "writerVersion needs to be"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(table, call, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        call(table)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.spark4
@pytest.mark.long
def test_a_merge_has_the_clauses_and_the_counts_of_delta(spark, table):
    source = spark.createDataFrame([("a", -1), ("e", -5)], "k string, v bigint")
    done = (
        table.merge(source, f.expr("key = k"))
        .whenMatchedUpdate(set={"value": f.col("v") + 0})
        .whenNotMatchedInsert(values={"key": "k", "value": "v"})
        .whenNotMatchedBySourceDelete("value = 4")
        .execute()
    )
    assert rows(done) == [(3, 1, 1, 1)]
    assert rows(table.toDF()) == [("a", -1), ("b", 2), ("c", 3), ("e", -5)]


def test_a_merge_finds_the_alias_of_its_source(spark, table):
    source = spark.createDataFrame([("a", 7), ("e", 8)], "key string, extra int").alias("new")
    (
        table.alias("old")
        .merge(source, "old.key = new.key")
        .whenMatchedUpdate("new.extra > 0", {"old.value": "new.extra"})
        .whenNotMatchedInsertAll()
        .withSchemaEvolution()
        .execute()
    )
    assert {"key": "e", "value": None, "extra": 8} in [r.asDict() for r in table.toDF().collect()]
    assert ("a", 7, None) in {tuple(row) for row in table.toDF().collect()}


@pytest.mark.long
def test_maintenance_and_time_travel(spark, url, table):
    ld.write(url, {"key": ["z"], "value": [9]})
    done = table.optimize().executeCompaction().first()
    assert (done.metrics.numFilesAdded, done.metrics.numFilesRemoved) == (1, 2)
    assert [row.operation for row in table.history(2).collect()] == ["OPTIMIZE", "WRITE"]
    assert DeltaTable.forPath(spark, f"{url}@v0").toDF().count() == 4
    assert table.restoreToVersion(0).first().num_removed_files == 1
    assert table.toDF().count() == 4
    with pytest.raises(ConfigError, match="retention"):
        table.vacuum(0)
    assert table.vacuum(1000).columns == ["path"]
    at = table.history().where("version = 1").first().timestamp
    table.restoreToTimestamp(at.strftime("%Y-%m-%d %H:%M:%S.%f"))
    assert table.toDF().count() == 5


def test_a_z_order_has_the_metrics_of_delta(spark, tmp_path):
    data = pa.table({"p": ["a", "a", "b", "b"], "x": [1, 2, 3, 4]})
    for part in (data.slice(0, 3), data.slice(3)):
        ld.write(tmp_path, part, partition_by="p")
    builder = DeltaTable.forPath(spark, str(tmp_path)).optimize()
    found = builder.executeZOrderBy("x").first().metrics
    assert (found.numFilesAdded, found.numFilesRemoved, found.numBins) == (2, 3, 2)
    assert (found.totalConsideredFiles, found.totalFilesSkipped) == (3, 0)
    stats = found.zOrderStats
    assert (stats.strategyName, stats.inputNumCubes, stats.numOutputCubes) == ("all", 0, 2)
    assert stats.mergedFiles == stats.inputOtherFiles == (3, found.filesRemoved.totalSize)
    compacted = builder.where("p = 'a'").executeCompaction().first().metrics
    assert (compacted.numBins, compacted.zOrderStats) == (0, None)


def test_a_pinned_version_is_read_only(spark, url):
    pinned = DeltaTable.forPath(spark, f"{url}@v0")
    with pytest.raises(ConfigError, match="can only be read"):
        pinned.delete()


def test_detail_describes_the_table(spark, url, table):
    found = table.detail().first()
    assert (found.format, found.numFiles, found.location) == ("delta", 1, url)
    assert found.sizeInBytes > 0
    assert (found.minReaderVersion, found.tableFeatures) == (1, ["appendOnly", "invariants"])
    assert abs(found.createdAt - dt.datetime.now()) < dt.timedelta(hours=1)  # noqa: DTZ005
    table.upgradeTableProtocol(1, 3)
    table.addFeatureSupport("deletionVectors")
    assert "deletionVectors" in table.detail().first().tableFeatures


@pytest.mark.spark4
def test_tables_are_defined_created_and_replaced(spark, tmp_path):
    url = str(tmp_path / "new")

    def define(builder):
        return (
            builder.location(url)
            .addColumn("id", "bigint", nullable=False, comment="the key")
            .addColumn("day", t.DateType())
            .addColumn(
                DeltaTable.columnBuilder("year")
                .dataType("int")
                .generatedAlwaysAs("year(day)")
                .build()
            )
            .partitionedBy("year")
            .property("k", "v")
            .comment("about it")
        )

    with pytest.raises(TableNotFoundError, match="createOrReplace"):
        define(DeltaTable.replace(spark)).execute()
    define(DeltaTable.create(spark)).execute()
    assert DeltaTable.isDeltaTable(spark, url)
    found = ld.Table.open(url).snapshot()
    assert (found.partition_columns, found.metadata.description) == (("year",), "about it")
    assert found.metadata.configuration["k"] == "v"
    assert not found.schema.find(["id"])[0].nullable
    assert found.schema.find(["id"])[0].metadata["comment"] == "the key"
    with pytest.raises(TableExistsError):
        define(DeltaTable.create(spark)).execute()
    define(DeltaTable.createIfNotExists(spark)).execute()
    assert ld.Table.open(url).version == 0
    ld.write(url, pa.table({"id": [1], "day": [dt.date(2026, 1, 2)]}))
    DeltaTable.createOrReplace(spark).location(url).addColumns(
        t.StructType().add("only", "string")
    ).clusterBy("only").execute()
    replaced = DeltaTable.forPath(spark, url)
    assert (replaced.toDF().columns, replaced.toDF().count()) == (["only"], 0)
    assert replaced.detail().first().clusteringColumns == ["only"]
    assert DeltaTable.forPath(spark, f"{url}@v1").toDF().count() == 1


def test_bad_definitions_are_refused(spark, tmp_path):
    builder = DeltaTable.create(spark).location(str(tmp_path))
    with pytest.raises(UnsupportedOperationError, match="bigint"):
        builder.addColumn("a", "int", generatedAlwaysAs=IdentityGenerator())
    with pytest.raises(ArgumentError, match="step"):
        builder.addColumn("a", "bigint", generatedAlwaysAs=IdentityGenerator(step=0))
    with pytest.raises(ArgumentError, match="nullable"):
        builder.addColumn("a", "int", nullable=1)
    with pytest.raises(ArgumentError, match="partition column"):
        builder.partitionedBy(1)
    with pytest.raises(ArgumentError, match="tableName or location"):
        DeltaTable.create(spark).addColumn("a", "int").execute()
    assert not (tmp_path / "_delta_log").exists()


def test_a_directory_is_converted_and_a_table_cloned(spark, tmp_path):
    (tmp_path / "files" / "p=1").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "files" / "p=1" / "a.parquet")
    columns = t.StructType().add("p", t.IntegerType())
    made = DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path / 'files'}`", columns)
    assert rows(made.toDF()) == [(1, 1), (2, 1)]
    copy = made.clone(str(tmp_path / "copy"), isShallow=False, properties={"k": "v"})
    assert rows(copy.toDF()) == [(1, 1), (2, 1)]
    assert copy.detail().first().properties["k"] == "v"
    with pytest.raises(ArgumentError, match="the property k needs to be a string"):
        made.clone(str(tmp_path / "none"), properties={"k": 1})
    assert not (tmp_path / "none").exists()
    shallow = made.clone(str(tmp_path / "copy"), isShallow=True, replace=True)
    assert [row.operation for row in shallow.history(1).collect()] == ["CLONE"]
    with pytest.raises(UnsupportedOperationError, match="clone it shallow"):
        made.clone(str(tmp_path / "copy"), replace=True)


@pytest.mark.parametrize("path", ["native", "arrow"])
def test_frames_have_the_not_null_and_the_comments_of_the_table(spark, tmp_path, path):
    url = str(tmp_path)
    made = (
        DeltaTable.create(spark)
        .location(url)
        .addColumn("id", "bigint", nullable=False, comment="the key")
        .addColumn("twice", "bigint", generatedAlwaysAs="id * 2")
        .addColumn("day", "date", comment="of the trip")
        .partitionedBy("day")
        .execute()
    )
    ld.write(url, {"id": [1, 2], "day": [dt.date(2026, 1, 2), None]})
    fields = [
        t.StructField("id", t.LongType(), False, {"comment": "the key"}),
        t.StructField("twice", t.LongType()),
        t.StructField("day", t.DateType(), True, {"comment": "of the trip"}),
    ]
    frame = lds.read(spark, url, path=path)
    assert frame.schema == made.toDF().schema == t.StructType(fields)
    assert made.alias("x").toDF().schema == frame.schema
    assert rows(made.alias("x").toDF().select("x.id")) == [(1,), (2,)]
    assert collect_arrow(frame).num_rows == 2
    kept = frame.where("id > 1").select("day", "id").schema
    assert [field.metadata.get("comment") for field in kept] == ["of the trip", "the key"]
    if not IS_SPARK_4:  # which has no formats in Python
        return
    lds.register(spark)
    comments = [f.metadata for f in spark.read.format("lazydelta").load(url).schema]
    assert comments == [field.metadata for field in fields]


def test_errors_are_also_those_that_code_for_delta_catches(spark, table, tmp_path):
    with pytest.raises(AnalysisException, match="no Delta table") as caught:
        DeltaTable.forPath(spark, str(tmp_path / "nothing"))
    assert isinstance(caught.value, TableNotFoundError)
    assert error_condition(caught.value) == "DELTA_TABLE_NOT_FOUND"
    assert str(caught.value).startswith("[DELTA_TABLE_NOT_FOUND] ")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.table) == (TableNotFoundError, str(tmp_path / "nothing"))
    with pytest.raises(PySparkException, match="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG") as caught:
        table.addFeatureSupport("abc")
    assert isinstance(caught.value, UnsupportedFeatureError)
    for kind, wrong in {
        AnalysisException: [
            lambda: lds.read(spark, str(tmp_path / "nothing")),
            lambda: lds.checkpoint(spark, tmp_path / "nothing"),
            lambda: table.delete("nowhere = 1"),
            lambda: lds.write(table.toDF(), table.address.url, "error"),
            lambda: DeltaTable.create(spark).location(table.address.url).execute(),
            lambda: DeltaTable.forPath(spark, f"{table.address.url}@v9"),
        ],
        ParseException: [lambda: lds.sql(spark, f"DELETE FROM delta.`{table.address.url}` WHERE")],
        UnsupportedOperationException: [lambda: table.dropFeatureSupport("deletionVectors")],
    }.items():
        for call in wrong:
            with pytest.raises(kind) as caught:
                call()
            assert isinstance(caught.value, DeltaError)


def test_a_manifest_is_generated(spark, table, url):
    table.generate("symlink_format_manifest")
    manifest = Path(url, "_symlink_format_manifest", "manifest")
    (file,) = ld.Table.open(url).scan().files()
    assert manifest.read_text() == f"file://{url}/{file.path}\n"
    manifest.unlink()
    lds.sql(spark, f"GENERATE symlink_format_manifest FOR TABLE delta.`{url}`")
    assert manifest.exists()
    with pytest.raises(ArgumentError, match="symlink_format_manifest"):
        table.generate("other")


def test_what_lazydelta_does_not_have_says_so(table):
    with pytest.raises(UnsupportedOperationError, match="is not supported: "):
        table.dropFeatureSupport("deletionVectors")


@pytest.mark.spark4
@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: f.col("key") == f.lit("it's"), "(key = 'it\\'s')"),
        (
            lambda: (f.col("a b") > 1) & ~f.col("s.x").isNull(),
            "((`a b` > 1) AND (NOT (s.x IS NULL)))",
        ),
        (lambda: f.expr("a or b"), "(a or b)"),
        (lambda: f.lit(dt.date(2026, 1, 2)), "DATE '2026-01-02'"),
        (lambda: f.lit(2**40), "1099511627776L"),
        (lambda: f.lit(1.5), "1.5D"),
        (lambda: f.lit(None), "NULL"),
        (lambda: f.col("a").isin(1, 2), "(a IN (1, 2))"),
        (lambda: f.col("m")["k"], "m['k']"),
        (lambda: f.col("a").cast("string"), "CAST(a AS STRING)"),
        (
            lambda: f.when(f.col("a") > 1, "x").otherwise("y"),
            "(CASE WHEN (a > 1) THEN 'x' ELSE 'y' END)",
        ),
        (lambda: -f.upper("a"), "(-upper(a))"),
    ],
)
def test_a_column_has_sql_text(spark, made, text):
    assert column_sql(made()) == text


@pytest.mark.spark4
@pytest.mark.parametrize(
    "made",
    [
        lambda _: f.transform("xs", lambda x: x + 1),
        lambda _: f.udf(lambda x: x)(f.col("a")),
        lambda _: f.lit(b"ab"),
        lambda _: f.col("*"),
        lambda spark: spark.range(1).id,
        lambda _: f.count_distinct("a"),
    ],
)
def test_a_column_without_sql_text_is_refused(spark, table, made):
    with pytest.raises(ArgumentError, match="pass a SQL string"):
        table.delete(made(spark))
