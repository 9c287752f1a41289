"""Tables read on Spark: on every read path, the rows of the reader in this process."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.errors import PythonException

import lazydelta as ld
from lazydelta import Config, Table, errors
from lazydelta.spark import explain_read, read
from tests.golden_pack import NEEDS_PACK, PACK
from tests.spark.read_cases import assert_same_rows, golden_names
from tests.unit.scan.read.generated import generated
from tests.unit.scan.read.tables import Rows, field, inline, with_ids

EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_SPARK_EXAMPLES", "3"))
LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
THRESHOLD = "spark.lazydelta.distributedLogReplay.fileThreshold"
TASKS = "spark.lazydelta.distributedLogReplay.numPartitions"
FIELDS = [field("id", "long"), field("name", "string")]


def numbers(start, stop):
    return pa.table(
        {"id": np.arange(start, stop), "name": [f"n{i % 7}" for i in range(start, stop)]}
    )


@pytest.fixture
def executors_plan(spark):
    """Let executors replay the log of every table, even a small one."""
    spark.conf.set(THRESHOLD, "0")
    spark.conf.set(TASKS, "2")
    yield
    spark.conf.unset(THRESHOLD)
    spark.conf.unset(TASKS)


# --- tables of other writers ----------------------------------------------------------------------

ONE_OF_EACH = [
    "dat__all_primitive_types",
    "dat__multi_partitioned_2",
    "dat__nested_types",
    "dat__partitioned_with_null",
    "dat__with_schema_change",
    "delta-golden__data-reader-escaped-chars",
    "delta-golden__data-reader-timestamp_ntz-id-mode",
    "delta-golden__decimal-various-scale-precision",
    "delta-golden__dv-partitioned-with-checkpoint",
    "delta-golden__dv-with-columnmapping",
    "delta-golden__kernel-timestamp-INT96",
    "delta-golden__kernel-timestamp-partition-col-ISO8601",
    "delta-golden__table-with-columnmapping-mode-name",
    "delta-kernel__spark-shredded-variant-preview-delta",
    "delta-rs__delta-2.2.0-partitioned-types",
    "delta-rs__table_with_edge_timestamps",
    "kernel-rs__type-widening",
    "kernel-rs__v2-checkpoints-json-with-sidecars",
    "kernel-rs__void-column",
]


@pytest.mark.sample(3)
@NEEDS_PACK
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_golden_rows(spark, name):
    assert_same_rows(spark, PACK / "tables" / name)


@NEEDS_PACK
@pytest.mark.long
@pytest.mark.parametrize("name", golden_names())
def test_every_golden_table(spark, name):
    assert_same_rows(spark, PACK / "tables" / name)


@NEEDS_PACK
def test_an_older_version(spark):
    path = PACK / "tables" / "delta-golden__time-travel-start-start20-start40"
    assert len(assert_same_rows(spark, path, version=1)) < len(Table.open(path).scan().to_arrow())


# --- random tables with a past --------------------------------------------------------------------


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(generated())
def test_renamed_moved_deleted_and_partitioned(spark, table):
    with tempfile.TemporaryDirectory() as directory:
        table.build(Path(directory) / "t").open()
        assert_same_rows(spark, Path(directory) / "t")


# --- partitions, names, predicates ----------------------------------------------------------------


@pytest.fixture
def partitioned(tmp_path):
    kinds = [field("id", "long"), field("day", "date"), field("k", "string")]
    made = Rows(tmp_path / "t", kinds, partition_columns=["day", "k"])
    values = [("2020-01-01", "a b"), ("2020-01-02", "x=%2F"), (None, ""), ("2020-01-01", None)]
    for at, (day, k) in enumerate(values):
        # The directory name is wrong: only the log counts.
        data = pa.table({"id": [at, at + 10], "day": ["in the file"] * 2, "k": [7, 7]})
        made.file(f"day=1999-01-01/k=z/{at}.parquet", data, partition={"day": day, "k": k})
    made.open()
    return made.path


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("where", "columns"),
    [
        (None, ["k", "id"]),
        (None, ["k"]),
        (None, []),
        ("day = date'2020-01-01' and id < 5", None),
        ("k is null or id = 11", ["day"]),
        ({"id": 3}, ["k"]),
        ([("day", ">", "2020-01-01")], None),
    ],
)
@pytest.mark.parametrize("way", ["native", "arrow"])
def test_predicates_and_columns(spark, partitioned, where, columns, way):
    if columns == []:
        assert read(spark, partitioned, columns=[], path=way).count() == 8
    else:
        assert_same_rows(spark, partitioned, ways=[way], where=where, columns=columns)


def test_a_later_filter_on_partitions_leaves_files_out(spark, partitioned):
    rows = read(spark, partitioned, path="native")
    assert len(rows.inputFiles()) == 4
    kept = rows.where("day = date'2020-01-01' and k = 'a b'")
    assert [Path(name).name for name in kept.inputFiles()] == ["0.parquet"]
    assert sorted(row.id for row in kept.collect()) == [0, 10]


def test_a_later_filter_on_values_reaches_the_row_groups(spark, partitioned, capsys):
    read(spark, partitioned, columns=["id"], path="native").where("id > 7").explain()
    assert "GreaterThan(id,7)" in capsys.readouterr().out


NAMES = ["[a-b]*?{c}.parquet", "a%20b c.parquet", "é,=#+.parquet", "_hidden.parquet",
         ".dot.parquet", "_d/part.parquet", "a:b.parquet", "e/c:d/f.parquet", "x._COPYING_"]  # fmt: skip


def test_names_that_spark_would_read_otherwise(spark, tmp_path):
    made = Rows(tmp_path / "t %25[1]", FIELDS)
    for at, name in enumerate(NAMES):
        made.file(name, numbers(at, at + 1))
        made.actions[-1]["add"]["path"] = name.replace("%", "%25").replace("#", "%23")
    made.open()
    assert len(assert_same_rows(spark, made.path)) == len(NAMES)
    rows = explain_read(spark, made.path)["rows"]
    assert (rows["path"], rows["native_files"], rows["arrow_files"]) == ("native and arrow", 4, 5)


def test_names_of_columns_that_need_quotes(spark, tmp_path):
    names = ["a.b", "c`d", "e f", "_metadata", "É"]
    made = Rows(tmp_path / "t", [field(name, "long") for name in names])
    made.file("a.parquet", pa.table([[n] for n in range(5)], names=names)).open()
    assert_same_rows(spark, made.path, where="`a.b` = 0 and `e f` > 1", ways=("native", "arrow"))


# --- which path, and why --------------------------------------------------------------------------


def explained(spark, path, **request):
    return explain_read(spark, path, **request)["rows"]


def test_files_with_deleted_rows_take_the_arrow_path(spark, tmp_path):
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    made.file("a.parquet", numbers(0, 100))
    made.file("b.parquet", numbers(100, 200), vector=inline([1, 50, 99])).open()
    assert len(assert_same_rows(spark, made.path, where="id > 90")) == 106
    assert explained(spark, made.path) == {
        "path": "native and arrow",
        "reason": "Spark can read its files, except 1 with a deletion vector or an unsupported path",
        "native_files": 1,
        "native_scans": 1,
        "arrow_files": 1,
    }


def test_a_table_that_only_our_reader_can_read(spark, tmp_path):
    made = Rows(
        tmp_path / "t", [field("id", "long", physical="p", column_id=1)],
        configuration={"delta.columnMapping.mode": "id"},
    )  # fmt: skip
    made.file("a.parquet", pa.table([[1, 2]], with_ids(pa.schema([("p", pa.int64())]), {"p": 1})))
    made.open()
    assert_same_rows(spark, made.path)
    assert explained(spark, made.path)["reason"] == "column mapping mode is id"
    with pytest.raises(errors.ConfigError, match=r"native cannot read .*column mapping mode is id"):
        read(spark, made.path, path="native")


def test_only_requested_columns_decide(spark, tmp_path):
    changed = field("b", "long") | {"metadata": {"delta.typeChanges": []}}
    made = Rows(tmp_path / "t", [field("a", "long"), changed], features=("typeWidening",))
    made.file("a.parquet", pa.table({"a": [1], "b": [2]})).open()
    assert explained(spark, made.path)["reason"] == "column 'b' has a changed type"
    assert explained(spark, made.path, columns=["a"])["path"] == "native"
    assert explained(spark, made.path, columns=["a"], where="b = 2")["path"] == "arrow"


def test_a_case_sensitive_session_reads_names_in_another_case(spark, tmp_path):
    made = Rows(tmp_path / "t", [field("ID", "long")])
    made.file("f.parquet", pa.table({"id": [1]})).open()
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "TRUE")
    assert read(session, made.path).first() == (1,)


def test_a_session_that_shifts_legacy_timestamps_reads_them_as_they_are(spark, tmp_path):
    made = Rows(tmp_path / "t", [field("ts", "timestamp")])
    time = datetime(2026, 5, 1, tzinfo=UTC)
    rows = pa.table({"ts": pa.array([time], pa.timestamp("us", "UTC"))})
    made.file("f.parquet", rows, use_deprecated_int96_timestamps=True).open()
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.int96TimestampConversion", "true")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    assert read(session, made.path).selectExpr("unix_seconds(ts)").first()[0] == time.timestamp()


@pytest.mark.spark4
def test_a_collation_applies_to_what_is_read(spark, tmp_path):
    collated = field("name", "string") | {
        "metadata": {"__COLLATIONS": {"name": "spark.UTF8_LCASE"}}
    }
    made = Rows(tmp_path / "t", [field("id", "long"), collated])
    made.file("f.parquet", pa.table({"id": [1, 2], "name": ["a", "A"]})).open()
    assert explained(spark, made.path)["reason"] == "column 'name' has a collation"
    assert read(spark, made.path).where("name = 'a'").count() == 2


def test_many_partitions_are_read_by_our_reader(spark, tmp_path):
    kinds = [field("id", "long"), field("p", "integer")]
    made = Rows(tmp_path / "t", kinds, partition_columns=["p"])
    made.file("x.parquet", pa.table({"id": [1]}), partition={"p": "0"})
    first = made.actions[-1]["add"]
    for at in range(1, 65):
        place = made.path / f"{at}.parquet"
        place.hardlink_to(made.path / "x.parquet")
        made.actions.append(
            {"add": first | {"path": place.name, "partitionValues": {"p": f"{at}"}}}
        )
    made.open()
    assert (
        explained(spark, made.path)["reason"] == "65 tuples of partition values are too many scans"
    )
    assert explained(spark, made.path, where="p < 64")["path"] == "native"
    assert read(spark, made.path).selectExpr("sum(p)").first()[0] == 64 * 65 // 2


def test_an_empty_table(spark, tmp_path):
    made = Rows(tmp_path / "t", FIELDS).commit()
    assert_same_rows(spark, made.path)
    assert explained(spark, made.path)["reason"] == "there are no files to read"


def test_an_unknown_path_is_refused(spark, tmp_path):
    made = Rows(tmp_path / "t", FIELDS).commit()
    with pytest.raises(errors.ConfigError, match="must be one of auto, native, arrow, not 'jni'"):
        read(spark, made.path, path="jni")


# --- a plan that is never collected ---------------------------------------------------------------


def test_partition_values_of_files_that_executors_find(spark, partitioned, executors_plan):
    assert explained(spark, partitioned)["arrow_files"] is None
    assert_same_rows(spark, partitioned, where="k is null or id = 11")


def test_files_that_executors_find(spark, tmp_path, executors_plan):
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    for start in range(0, 600, 100):
        made.file(f"{start}.parquet", numbers(start, start + 100), vector=inline([start // 100]))
        made.commit()
    assert "more than 0 files may match" in explained(spark, made.path)["reason"]
    assert explained(spark, made.path)["arrow_files"] is None
    assert len(assert_same_rows(spark, made.path)) == 594
    assert_same_rows(spark, made.path, where="id between 95 and 105", columns=["name"])


def test_what_is_left_after_skipping_decides(spark, tmp_path, executors_plan):
    """A large table of which few files match is read by Spark's own scan."""
    path = str(tmp_path / "t")
    for start in range(0, 600, 100):
        ld.write(path, numbers(start, start + 100))
    spark.conf.set(THRESHOLD, "3")
    report = explained(spark, path, where="id between 195 and 205")
    assert (report["path"], report["native_files"]) == ("native", 2)
    assert "more than 3 files may match" in explained(spark, path, where="id > 195")["reason"]
    for where in ("id between 195 and 205", "id > 195", "id < 0"):
        assert_same_rows(spark, path, where=where)


# --- errors ---------------------------------------------------------------------------------------


@pytest.fixture
def two_files(tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    made.file("a.parquet", numbers(0, 3)).file("b.parquet", numbers(3, 6)).open()
    return made.path


def test_a_missing_file_is_named_by_both(spark, two_files):
    (two_files / "b.parquet").unlink()
    with pytest.raises(errors.DataFileNotFoundError, match="vacuum") as caught:
        read(spark, two_files, path="native")
    assert caught.value.path == "b.parquet"
    with pytest.raises(PythonException, match=r"DataFileNotFoundError.*b\.parquet"):
        read(spark, two_files, path="arrow").collect()


def test_a_damaged_file_is_never_left_out(spark, two_files):
    (two_files / "b.parquet").write_bytes(b"PAR1 no more PAR1")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        # Spark 3.5 does not name the file.
        for way, named in ("native", r"b\.parquet|corrupted file"), ("arrow", r"b\.parquet"):
            with pytest.raises(Exception, match=named):
                read(spark, two_files, path=way).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_a_path_out_of_the_table_is_not_opened(spark, tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    made.file("a.parquet", numbers(0, 3), action={"path": "../secret.parquet"}).open()
    pq.write_table(numbers(0, 3), tmp_path / "secret.parquet")
    with pytest.raises(errors.PathNotAllowedError):
        read(spark, made.path)
    with pytest.raises(PythonException, match="PathNotAllowedError"):
        read(spark, made.path, path="arrow").collect()


def test_an_invalid_request_fails_before_spark_starts(spark, two_files):
    with pytest.raises(errors.ColumnNotFoundError, match="missing"):
        read(spark, two_files, columns=["missing"])
    with pytest.raises(errors.ColumnNotFoundError, match="idd"):
        read(spark, two_files, where="idd = 1")
    with pytest.raises(errors.VersionNotCommittedError):
        read(spark, two_files, version=7)


def test_an_unknown_type_is_refused_by_name(spark, tmp_path):
    made = Rows(tmp_path / "t", [field("shape", "hyperplane")]).commit()
    with pytest.raises(errors.SchemaError, match=r"'shape'.*'hyperplane'"):
        read(spark, made.path)


def test_secrets_that_executors_would_lack_are_refused(spark):
    secret = {"aws_secret_access_key": "s3cr3t", "aws_access_key_id": "x", "region": "r"}
    with pytest.raises(errors.ConfigError, match="storageOptionsFile") as caught:
        read(spark, "s3://nowhere/t", storage_options=secret)
    assert "s3cr3t" not in str(caught.value)


def test_options_for_this_process_are_taken_with_a_local_table(spark, two_files):
    config = Config(batch_rows=1)
    assert read(spark, two_files, storage_options={}, config=config).count() == 6


def test_the_session_is_left_as_it_was(spark, two_files):
    before = spark.conf.get(LISTING)
    read(spark, two_files, path="native")
    assert spark.conf.get(LISTING) == before
    (two_files / "a.parquet").unlink()
    with pytest.raises(errors.DataFileNotFoundError):
        read(spark, two_files, path="native")
    assert spark.conf.get(LISTING) == before


def test_the_explanation_reports_where_the_log_was_replayed(spark, two_files):
    explanation = explain_read(spark, two_files)
    assert explanation["replay"]["by"] == "this process"
    assert "path                   native" in str(explanation)
    assert json.dumps(explanation)


def test_a_type_that_spark_does_not_have_is_refused(spark, tmp_path):
    fields = [field("id", "long"), field("ts", "timestamp_nanos")]
    made = Rows(tmp_path / "t", fields, features=("timestampNanos", "timestampNtz"))
    made.file("f.parquet", pa.table({"id": [1], "ts": pa.array([1], pa.timestamp("ns", "UTC"))}))
    made.commit()
    with pytest.raises(errors.SchemaError, match="timestamp_nanos"):
        read(spark, made.path)
