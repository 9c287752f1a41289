"""`lazydelta.spark.write`: the same result as `lazydelta.write`, with files written by executors."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.config import Config
from lazydelta.errors import (
    ConfigError,
    ConstraintViolationError,
    SchemaError,
    SchemaMismatchError,
    TableExistsError,
)
from lazydelta.operations import WriteRequest, plan_write
from lazydelta.spark.arrow_conversion import spark_schema
from lazydelta.spark.serialized_snapshot import TableLocation
from lazydelta.spark.spark_releases import IS_SPARK_4, frame_of_arrow
from lazydelta.spark.write_tasks import PlannedWrite, collect_results, incoming_schema, write_rows
from lazydelta.store import open_store
from lazydelta.store.layers.retrying_store import RetryingStore

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678000)  # noqa: DTZ001 - both kinds of column take it
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
EVERY_TYPE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "byte": pa.array([-128, None, 127], pa.int8()),
        "short": pa.array([1, 2, None], pa.int16()),
        "whole": pa.array([None, None, 7], pa.int32()),
        "real": pa.array([1.5, -0.5, None], pa.float32()),
        "double": pa.array([1e300, None, -2.25], pa.float64()),
        "price": pa.array([Decimal("1.234"), None, Decimal("-99.000")], pa.decimal128(12, 3)),
        "text": pa.array(["ä" * 40, "", None]),
        "raw": pa.array([b"\0\xff", b"", None]),
        "day": pa.array([dt.date(1969, 12, 31), None, dt.date(2026, 1, 1)]),
        "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
        "local": pa.array([MOMENT, MOMENT, None], pa.timestamp("us")),
        "ok": pa.array([True, False, None]),
        "point": pa.array([{"x": 1, "y": "a"}, None, {"x": 3, "y": None}], POINT),
        "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
        "scores": pa.array([[("k", {"x": 1, "y": "b"})], [], None], pa.map_(pa.string(), POINT)),
        "p": pa.array(["a/b", None, "x=%2F"]),
    }
)


def rows_of(url, **how):
    return ld.Table.open(url).scan(**how).to_arrow().sort_by("id").to_pylist()


def adds_of(url):
    """Return the adds of the log, without names and times."""
    lines = (url / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    adds = [action["add"] for action in map(json.loads, lines) if "add" in action]
    return sorted(((add["partitionValues"], json.loads(add["stats"])) for add in adds), key=str)


def test_every_type_is_written_as_the_writer_in_this_process_does(spark, tmp_path):
    theirs, ours = tmp_path / "spark", tmp_path / "here"
    frame = frame_of_arrow(spark, EVERY_TYPE, spark_schema(EVERY_TYPE.schema))
    result = executors.write(frame, theirs, partition_by="p")
    ld.write(ours, EVERY_TYPE, partition_by="p")
    assert (result.version, result.rows, result.files_added) == (0, 3, 3)
    assert rows_of(theirs) == rows_of(ours) == EVERY_TYPE.to_pylist()
    assert adds_of(theirs) == adds_of(ours)
    snapshots = [ld.Table.open(url).snapshot() for url in (theirs, ours)]
    assert snapshots[0].schema == snapshots[1].schema
    assert snapshots[0].protocol == snapshots[1].protocol


def test_rows_of_a_partition_are_shuffled_together_by_default(spark, tmp_path):
    frame = spark.range(0, 80, 1, 4).selectExpr("id", "id % 2 AS `a p`")
    result = executors.write(frame, tmp_path / "t", partition_by=["a p"], properties={
        "delta.columnMapping.mode": "name"})  # fmt: skip
    assert result.files_added == 2
    scattered = executors.write(frame, tmp_path / "t", "append", rebalance=False)
    assert scattered.files_added == 8
    assert sorted(row["id"] for row in rows_of(tmp_path / "t")) == sorted([*range(80)] * 2)


def test_modes(spark, tmp_path):
    url, frame = tmp_path / "t", spark.range(0, 3, 1, 1)
    executors.write(frame, url)
    with pytest.raises(TableExistsError):
        executors.write(frame, url, "error")
    assert executors.write(frame, url, "ignore").skipped
    merged = frame.selectExpr("id + 10 AS id", "'new' AS name")
    with pytest.raises(SchemaMismatchError, match="'name'"):
        executors.write(merged, url, "append")
    assert executors.write(merged, url, "append", schema_mode="merge").version == 1
    part = merged.selectExpr("id", "'again' AS name")
    result = executors.write(part, url, "overwrite", where="id >= 10",
        commit_metadata={"why": "test"})  # fmt: skip
    assert (result.files_added, result.files_removed) == (1, 1)
    names = [(row["id"], row["name"]) for row in rows_of(url)]
    assert names == [(0, None), (1, None), (2, None), (10, "again"), (11, "again"), (12, "again")]
    assert ld.Table.open(url).history(1)[0].raw["why"] == "test"
    executors.write(frame.selectExpr("id AS other"), url, "overwrite", schema_mode="overwrite")
    assert ld.Table.open(url).snapshot().schema.names == ("other",)


def test_the_feed_of_a_replacement_that_cuts_through_files(spark, tmp_path):
    recorded = {"delta.enableChangeDataFeed": "true"}
    ld.write(tmp_path, {"id": [0, 1, 2], "t": ["a", "b", "c"]}, properties=recorded)
    new = spark.sql("SELECT id + 2 AS id, 'n' AS t FROM range(2)")
    executors.write(new, tmp_path, "overwrite", where="id >= 2")
    changes = ld.Table.open(tmp_path).changes(starting_version=1).to_arrow().to_pylist()
    assert sorted((row["_change_type"], row["id"], row["t"]) for row in changes) == [
        ("delete", 2, "c"),
        ("insert", 2, "n"),
        ("insert", 3, "n"),
    ]


def test_names_with_dots_and_quotes(spark, tmp_path):
    frame = spark.sql("SELECT id, 'a' `odd name`, id `c.d`, id % 2 `e``f`, 's' `c` FROM range(4)")
    mapped = {"delta.columnMapping.mode": "name"}
    executors.write(frame, tmp_path, properties=mapped, partition_by=["e`f"])
    expected = [{"id": n, "odd name": "a", "c.d": n, "e`f": n % 2, "c": "s"} for n in range(4)]
    assert rows_of(tmp_path) == expected


def test_a_value_that_the_log_cannot_hold_is_an_error_of_its_own(spark, tmp_path):
    frame = spark.sql("SELECT id, DATE'9999-12-31' + 1 AS p FROM range(1)")
    with pytest.raises(SchemaError, match="partition column 'p'"):
        executors.write(frame, tmp_path, partition_by="p")


def test_rows_that_violate_a_constraint_commit_nothing(spark, tmp_path):
    url = tmp_path / "t"
    table = ld.Table.create(url, "id bigint not null, n int", constraints={"small": "n < 10"})
    frame = spark.range(0, 8, 1, 2)
    with pytest.raises(ConstraintViolationError, match=r"id.*is NOT NULL"):
        executors.write(frame.selectExpr("nullif(id, 5) AS id", "1 AS n"), url, "append")
    with pytest.raises(ConstraintViolationError, match="small"):
        executors.write(frame.selectExpr("id", "cast(id * 2 AS int) AS n"), url, "append")
    with pytest.raises(SchemaMismatchError, match="'n'"):
        executors.write(frame.selectExpr("id", "id + 4000000000 AS n"), url, "append")
    assert table.version == 0
    assert executors.write(frame.selectExpr("id", "1 AS n"), url, "append").version == 1


def test_an_application_transaction_is_written_once(spark, tmp_path):
    step = {"mode": "append", "app_id": "nightly", "app_version": 7}
    frame = spark.range(0, 4, 1, 1)
    assert executors.write(frame, tmp_path, **step).version == 0
    again = executors.write(frame, tmp_path, **step)
    assert (again.already_applied, again.version) == (True, 0)
    assert len(rows_of(tmp_path)) == 4


def test_appends_of_spark_and_of_this_process_at_the_same_time(spark, tmp_path):
    executors.write(spark.range(0, 10, 1, 2), tmp_path)

    def append():
        for number in range(5):
            ld.write(tmp_path, {"id": [1000 + number]}, mode="append")

    thread = threading.Thread(target=append)
    thread.start()
    for start in (10, 20):
        executors.write(spark.range(start, start + 10, 1, 2), tmp_path, "append")
    thread.join()
    assert [row["id"] for row in rows_of(tmp_path)] == [*range(30), *range(1000, 1005)]
    assert ld.Table.open(tmp_path).version == 7


def planned(url, schema, request):
    store, config = open_store(url), Config()
    writing = plan_write(store, config, schema, request)
    return writing, PlannedWrite.of(writing, request, TableLocation.of(store, config, None))


def test_only_files_of_the_attempt_that_counts_are_committed(tmp_path):
    rows = pa.table({"id": [1, 2, 3]})
    writing, task = planned(tmp_path, rows.schema, WriteRequest())
    lost = list(write_rows(task, iter(rows.to_batches())))  # succeeded, but its result was lost
    counted = list(write_rows(task, iter(rows.to_batches())))
    done = writing.finish(collect_results(pa.Table.from_batches(counted)), writing.replacement())
    assert (done.rows, done.files_added) == (3, 1)
    assert [row["id"] for row in rows_of(tmp_path)] == [1, 2, 3]
    assert len(lost) == 1
    assert len(list(tmp_path.glob("*.parquet"))) == 2


def test_a_pickled_plan_has_no_storage_options(tmp_path):
    from pyspark import cloudpickle

    address = TableLocation(root=str(tmp_path), config=Config(), options_file="/etc/options.json")
    _, task = planned(tmp_path, pa.schema([("id", pa.int64())]), WriteRequest())
    sent = cloudpickle.dumps(PlannedWrite(
        location=address, request=task.request, base=None, task=task.task))  # fmt: skip
    assert len(sent) < 20_000
    assert b"/etc/options.json" in sent


def test_credentials_do_not_travel():
    store = RetryingStore(
        open_store("az://lake/t", {"account_name": "a"}, credential=lambda: "token"), Config()
    )
    with pytest.raises(ConfigError, match="cannot be sent to another process"):
        TableLocation.of(store, Config(), None)
    roots = {"s3://other/t": {"secret_access_key": "hush"}}
    sent = TableLocation.of(store, Config(allowed_roots=roots), "/etc/options.json")
    assert sent.config.allowed_roots == ("s3://other/t",)
    assert b"hush" not in pickle.dumps(sent)


@pytest.mark.skipif(not IS_SPARK_4, reason="Spark has collations from 4.0 on")
def test_collations_are_refused_by_name(spark):
    frame = spark.sql("SELECT named_struct('a', 'x' COLLATE UNICODE_CI) AS s")
    with pytest.raises(SchemaError, match=r"'s\.a'.*UNICODE_CI"):
        incoming_schema(frame.schema, "/t")


def test_types_that_delta_does_not_have_are_refused_by_name(spark):
    frame = spark.sql("SELECT INTERVAL 3 DAYS AS waited")
    with pytest.raises(SchemaError, match="interval"):
        incoming_schema(frame.schema, "/t")


def test_timestamps_do_not_depend_on_the_session_time_zone(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    executors.write(session.sql("SELECT 1L AS id, timestamp'2026-01-02 03:04:05Z' AS at"), tmp_path)
    (row,) = rows_of(tmp_path)
    assert row["at"] == dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def test_credentials_of_this_process_alone_are_refused(spark):
    with pytest.raises(ConfigError, match="executors take theirs"):
        executors.write(spark.range(1), "s3://bucket/t", storage_options={"region": "eu-west-1"})


def test_the_driver_writes_a_checkpoint(spark, tmp_path):
    executors.write(spark.range(3), tmp_path)
    result = executors.checkpoint(spark, tmp_path)
    assert (result.version, result.is_new) == (0, True)
    assert ld.Table.open(tmp_path).snapshot().segment.base_version == 0
    assert not executors.checkpoint(spark, tmp_path, 0).is_new
