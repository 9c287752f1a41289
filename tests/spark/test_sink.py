"""`df.write.format("lazydelta")` and `df.writeStream`: options, commits, and each batch once."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import types as t

import lazydelta as ld
from lazydelta._failpoints import FailpointError, arm
from lazydelta.errors import ConfigError, InternalError, MetadataChangedError
from lazydelta.spark import register
from lazydelta.spark.sink import BatchSink, StreamSink
from lazydelta.spark.sink_options import SinkOptions

pytestmark = pytest.mark.spark4

ID = t.StructType([t.StructField("id", t.LongType())])


def ids_of(url):
    return sorted(ld.Table.open(url).scan().to_arrow().column("id").to_pylist())


def batches(*ids):
    return iter(pa.table({"id": pa.array(ids, pa.int64())}).to_batches())


def options(url, **more):
    given = {name.replace("_", ""): value for name, value in more.items()}
    return SinkOptions.parse({"path": str(url), **given}, None)


def sent(thing):
    """Return a copy, as another Spark process would receive it."""
    return pickle.loads(cloudpickle.dumps(thing))


# --- batches


@pytest.fixture(scope="module")
def sinks(spark):
    register(spark)
    return spark


def test_saving_a_frame(sinks, tmp_path):
    url, frame = str(tmp_path / "t"), sinks.range(0, 6, 1, 2).selectExpr("id", "id % 2 AS p")
    writer = frame.write.format("lazydelta")
    properties = '{"delta.appendOnly": "false"}'
    writer.mode("append").option("partitionBy", "p").option("properties", properties).save(url)
    snapshot = ld.Table.open(url).snapshot()
    assert snapshot.partition_columns == ("p",)
    assert snapshot.metadata.configuration == {"delta.appendOnly": "false"}
    part = frame.where("p = 1").selectExpr("id + 10 AS id", "p", "'new' AS name")
    merged = part.write.format("lazydelta").mode("overwrite").option("mergeSchema", "true")
    step = {"txnAppId": "nightly", "txnVersion": "4", "userMetadata": "by hand"}
    for _ in range(2):
        merged.option("replaceWhere", "p = 1").options(**step).save(url)
    assert ids_of(url) == [0, 2, 4, 11, 13, 15]
    (newest, *_) = ld.Table.open(url).history()
    assert (newest.version, newest.raw["userMetadata"]) == (1, "by hand")


def test_rows_that_do_not_fit_are_refused_and_nothing_is_committed(sinks, tmp_path):
    url = str(tmp_path / "t")
    ld.Table.create(url, "id bigint, n int", constraints={"small": "n < 3"})
    writer = sinks.range(0, 9, 1, 1).selectExpr("id", "cast(id AS int) AS n").write
    with pytest.raises(PySparkException, match="small"):
        writer.format("lazydelta").mode("append").save(url)
    cure = r"column 'x': not in the table[^.]*The option mergeSchema=true adds new columns"
    with pytest.raises(PySparkException, match=cure):
        sinks.sql("SELECT 1 AS x").write.format("lazydelta").mode("append").save(url)
    with pytest.raises(PySparkException, match="lazydelta has no such option"):
        writer.format("lazydelta").mode("append").option("accountKey", "hush").save(url)
    assert ld.Table.open(url).version == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"merge_schema": "true", "overwrite_schema": "true"}, "give one of them"),
        ({"overwrite_schema": "true"}, "replaces all rows"),
        ({"replace_where": "id = 1"}, "needs mode"),
        ({"txn_app_id": "a"}, "txnAppId: and txnVersion need each other"),
        ({"txn_version": "1"}, "txnAppId: and txnVersion need each other"),
        ({"merge_schema": "perhaps"}, "true or false"),
        ({"properties": "[1]"}, "JSON object of strings"),
        ({"target_file_size": "much"}, "must be a size"),
        ({"compression": "rot13"}, "codec"),
        ({"path": "s3://lake/t?sig=hush"}, "secret"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, given, message):
    with pytest.raises(ConfigError, match=message):
        options(**{"url": tmp_path, **given}).request(overwrite=False)


def test_a_write_is_planned_done_and_committed_by_different_processes(tmp_path):
    sink = BatchSink(options(tmp_path), ID, overwrite=False)
    messages = [sent(sent(sink).write(batches(*ids))) for ids in ((1, 2), (), (3,))]
    sent(sink).commit(messages)
    assert ids_of(tmp_path) == [1, 2, 3]
    sink.abort(messages)  # must not delete files that a version may reference
    assert ids_of(tmp_path) == [1, 2, 3]
    with pytest.raises(InternalError, match="returned no result"):
        sink.commit([messages[0], None])


def test_a_table_that_changed_meanwhile_is_a_conflict(tmp_path):
    ld.write(tmp_path, {"id": [0]})
    sink = BatchSink(options(tmp_path), ID, overwrite=False)
    message = sink.write(batches(1))
    ld.Table.open(tmp_path).alter.add_columns("more string")
    with pytest.raises(MetadataChangedError):
        sink.commit([message])
    assert ids_of(tmp_path) == [0]


# --- streams


def run_batch(url, number, *shares, app_id="query", overwrite=False):
    """Run a batch as Spark does: one sink for the tasks, and another for the commit."""
    given = options(url, txn_app_id=app_id, checkpoint_location="/somewhere")
    tasks = StreamSink(given, ID, overwrite=overwrite)
    messages = [sent(sent(tasks).write(batches(*ids))) for ids in shares]
    StreamSink(given, ID, overwrite=overwrite).commit(messages, number)


def test_a_repeated_batch_is_added_once(tmp_path):
    run_batch(tmp_path, 0, [1, 2], [3])
    run_batch(tmp_path, 0, [1, 2], [3])
    run_batch(tmp_path, 1, [4])
    run_batch(tmp_path, 0, [1, 2], [3])
    run_batch(tmp_path, 0, [5], app_id="another query")
    assert ids_of(tmp_path) == [1, 2, 3, 4, 5]
    assert ld.Table.open(tmp_path).version == 2


def test_a_crash_after_the_commit_and_before_spark_knows(tmp_path):
    run_batch(tmp_path, 0, [1])
    with arm("commit-acknowledged", "raise"), pytest.raises(FailpointError):
        run_batch(tmp_path, 1, [2])
    run_batch(tmp_path, 1, [2])
    assert ids_of(tmp_path) == [1, 2]


def test_a_crash_before_the_commit(tmp_path):
    run_batch(tmp_path, 0, [1])
    with arm("commit-prepared", "raise"), pytest.raises(FailpointError):
        run_batch(tmp_path, 1, [2])
    assert ids_of(tmp_path) == [1]
    run_batch(tmp_path, 1, [2])
    assert ids_of(tmp_path) == [1, 2]


def test_a_batch_that_is_committed_twice_at_the_same_time(tmp_path):
    run_batch(tmp_path, 0, [1])
    given = options(tmp_path, txn_app_id="query")
    tasks = [StreamSink(given, ID, overwrite=False) for _ in range(2)]
    messages = [[task.write(batches(2))] for task in tasks]  # planned on the same version
    for message in messages:
        StreamSink(given, ID, overwrite=False).commit(message, 1)
    assert ids_of(tmp_path) == [1, 2]


def test_a_stream_of_complete_results_replaces_the_rows(tmp_path):
    run_batch(tmp_path, 0, [1, 2], overwrite=True)
    run_batch(tmp_path, 1, [3], overwrite=True)
    run_batch(tmp_path, 1, [3], overwrite=True)
    assert ids_of(tmp_path) == [3]
    assert ld.Table.open(tmp_path).version == 1


def test_a_batch_without_rows_makes_no_version_but_the_first(tmp_path):
    StreamSink(options(tmp_path, txn_app_id="q"), ID, overwrite=False).commit([], 0)
    assert not (tmp_path / "_delta_log").exists()
    run_batch(tmp_path, 1, [], [])
    run_batch(tmp_path, 2, [], [])
    assert ld.Table.open(tmp_path).version == 0
    run_batch(tmp_path, 3, [], [7])
    assert ids_of(tmp_path) == [7]


def test_a_stream_without_a_name_is_refused(tmp_path):
    sink = StreamSink(options(tmp_path), ID, overwrite=False)
    with pytest.raises(ConfigError, match="txnAppId"):  # outside of Spark there is no query id
        sink.commit([sink.write(batches(1))], 0)


@pytest.mark.parametrize("given", [{"txn_version": "3"}, {"replace_where": "id = 1"}])
def test_options_of_batches_are_refused_for_streams(tmp_path, given):
    with pytest.raises(ConfigError, match="stream"):
        StreamSink(options(tmp_path, **given), ID, overwrite=False)


@pytest.mark.long  # three runs of a query; through Connect, one is always run
def test_a_query_that_forgot_its_last_batch(sinks, tmp_path):
    """Spark's own record of the batch is deleted, as if it crashed before writing it."""
    source, url, place = (str(tmp_path / name) for name in ("source", "t", "checkpoint"))
    ld.write(source, {"id": [1, 2, 3]})
    rows = sinks.readStream.format("lazydelta").load(source)
    writer = rows.writeStream.format("lazydelta").option("checkpointLocation", place)

    def run():
        query = writer.trigger(availableNow=True).start(url)
        query.awaitTermination()
        return str(query.id)

    name = run()
    ld.write(source, {"id": [4]}, mode="append")
    assert run() == name
    assert ids_of(url) == [1, 2, 3, 4]
    for file in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        file.unlink()
    run()
    assert ids_of(url) == [1, 2, 3, 4]
    assert ld.Table.open(url).snapshot().transactions()[name].version == 1
