"""Damaged tables fail the job with our typed error on every read path; no row is lost or null."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.spark import (
    attach,
    delete,
    distributed_log_replay,
    optimize,
    read,
    register,
    sql,
)
from lazydelta.spark.jobs import named_task
from lazydelta.spark.read import read_snapshot
from lazydelta.spark.spark_releases import IS_SPARK_4
from tests.unit.changes.support import FeedTable

pytest.importorskip("pyspark")

BY_EXECUTORS = {
    "spark.lazydelta.distributedLogReplay.fileThreshold": "0",
    "spark.lazydelta.distributedLogReplay.numPartitions": "2",
}
COMMIT = "00000000000000000002.json"
PART = "00000000000000000001.checkpoint.0000000002.0000000002.parquet"
IDS = [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 32, 40, 41, 42]


@pytest.fixture
def table(tmp_path):
    """Files in the only checkpoint, and in the tail; row 31 is deleted.

    The checksum has protocol and metadata, so only the log replay reads the log itself.
    """
    made = FeedTable(tmp_path / "t")

    def added(number, **more):
        ids = pa.array(range(number * 10, number * 10 + 3), pa.int64())
        return made.add(f"f{number}.parquet", pa.table({"id": ids}), **more)

    made.commit(added(0), added(1)).commit(added(2))
    made.log.checkpoint("multipart", parts=2).clean_up(2)
    made.commit(added(3, deleted=[1])).commit(added(4))
    made.log.crc()
    return made


@pytest.fixture
def executors_plan(spark):
    """Let executors replay the log of every table, even a small one, in few tasks."""
    for name, value in BY_EXECUTORS.items():
        spark.conf.set(name, value)
    yield
    for name in BY_EXECUTORS:
        spark.conf.unset(name)


# --- damage: how it changes a table, the expected error, and the file that it names -----------------


def cut_line(table):
    table.log.write(COMMIT, table.log.read(COMMIT) + b'{"add":{"path":"f9.parq')


def wrong_type(table):
    line = {"add": {"path": "f9.parquet", "size": "many", "partitionValues": {}}}
    table.log.write(COMMIT, table.log.read(COMMIT) + json.dumps(line).encode() + b"\n")


def no_path(table):
    line = {"add": {"size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}}
    table.log.write(COMMIT, table.log.read(COMMIT) + json.dumps(line).encode() + b"\n")


def cut_checkpoint(table):
    table.log.write(PART, table.log.read(PART)[:-9])


def missing_file(table):
    (table.directory / "f1.parquet").unlink()


def damaged_file(table):
    (table.directory / "f1.parquet").write_bytes(b"no Parquet" * 100)


def vector_of_more_rows(table):
    _change_vector(table, cardinality=2)


def vector_of_another_file(table):
    """A valid vector with a row position beyond the end of the file."""
    listed = table.add("f3.parquet", deleted=[1000])["add"]["deletionVector"]
    _change_vector(table, **listed)


def _change_vector(table, **changed):
    lines = [json.loads(line) for line in table.log.read(COMMIT).splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["deletionVector"] |= changed
    table.log.write(COMMIT, "".join(json.dumps(line) + "\n" for line in lines).encode())


LOG = {
    cut_line: ("LogCorruptError", COMMIT),
    wrong_type: ("LogCorruptError", COMMIT),
    no_path: ("LogCorruptError", COMMIT),
    cut_checkpoint: ("LogCorruptError", PART),
}
ROWS = {
    missing_file: ("DataFileNotFoundError", "f1.parquet"),
    damaged_file: ("DataFileError", "f1.parquet"),
    vector_of_more_rows: ("DeletionVectorError", "f3.parquet"),
    vector_of_another_file: ("DeletionVectorError", "f3.parquet"),
}


def by_name(damages):
    return [
        pytest.param(damage, *expected, id=damage.__name__) for damage, expected in damages.items()
    ]


def failure(work):
    """Return the class and the complete message of the error that `work` raises."""
    with pytest.raises(Exception) as caught:
        work()
    return f"{type(caught.value).__name__}: {caught.value}"


def loaded(spark, table):
    register(spark)
    return spark.read.format("lazydelta").load(str(table.directory))


def ids(frame):
    return sorted(row.id for row in frame.collect())


# --- read paths -----------------------------------------------------------------------------------


@pytest.mark.spark4
def test_an_undamaged_table_is_read_by_every_path(spark, table, executors_plan):
    snapshot = Table.open(table.directory).snapshot()
    files = distributed_log_replay(spark, snapshot, fields=["path"]).collect()
    assert sorted(file.path for file in files) == [f"f{n}.parquet" for n in range(5)]
    assert ids(read(spark, table.directory)) == IDS
    assert ids(read(spark, table.directory, path="native")) == IDS
    assert ids(loaded(spark, table)) == IDS


@pytest.mark.parametrize(("damage", "error", "named"), by_name(LOG))
def test_a_damaged_log_fails_the_replay(spark, table, damage, error, named):
    snapshot = Table.open(table.directory).snapshot()
    damage(table)
    message = failure(distributed_log_replay(spark, snapshot, fields=["path"]).collect)
    assert f"{error}: " in message
    assert named in message


@pytest.mark.parametrize(("damage", "error", "named"), by_name(LOG | ROWS))
def test_damage_fails_a_read_whose_files_executors_find(
    spark, table, executors_plan, damage, error, named
):
    snapshot = Table.open(table.directory).snapshot()
    damage(table)
    message = failure(lambda: read_snapshot(spark, snapshot).collect())
    assert f"{error}: " in message
    assert named in message


@pytest.mark.parametrize(("damage", "error", "named"), by_name(LOG | ROWS))
def test_damage_fails_a_read_whose_files_are_listed_here(spark, table, damage, error, named):
    damage(table)
    is_named = IS_SPARK_4 or damage is not damaged_file  # by the Parquet scan of Spark 3.5
    for way in ("auto", "arrow") if is_named else ("arrow",):
        message = failure(lambda way=way: read(spark, table.directory, path=way).collect())
        assert f"{error}: " in message
        assert named in message


@pytest.mark.spark4
@pytest.mark.parametrize("damage", [missing_file, damaged_file])
def test_a_damaged_file_is_one_short_error_through_every_door(spark, table, tmp_path, damage):
    url, name = str(table.directory), f"damaged_{damage.__name__}"
    attach(spark, {name: url})
    damage(table)
    doors = {
        "a query of lazydelta.spark.sql": lambda: sql(spark, f"SELECT * FROM {name}").collect(),
        "a query of Spark": lambda: spark.sql(f"SELECT * FROM {name}").collect(),
        "a derived frame": lambda: read(spark, url).where("id >= 0").toArrow(),
        "a stream": lambda: streamed(spark, url, tmp_path),
        "a DELETE": lambda: delete(spark, url, "id % 2 = 0"),
        "OPTIMIZE": lambda: optimize(spark, url),
    }
    for door, run in doors.items():
        message = failure(run)
        assert "f1.parquet" in message, door
        assert f"{ROWS[damage][0]}: " in message, door
        assert "Traceback" not in message, door
        assert "\tat " not in message, door
    spark.sql(f"DROP TABLE {name}")


def streamed(spark, url, place):
    rows = spark.readStream.format("lazydelta").load(url).writeStream.format("noop")
    query = rows.option("checkpointLocation", str(place / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.spark4
@pytest.mark.parametrize(("damage", "error", "named"), by_name(LOG | ROWS))
def test_damage_fails_the_data_source(spark, table, damage, error, named):
    damage(table)
    message = failure(lambda: loaded(spark, table).collect())
    assert f"{error}: " in message
    assert named in message


def test_a_task_without_memory_fails_with_one_line(spark):
    def greedy(batches):
        yield from (pa.RecordBatch.from_arrays([pa.allocate_buffer(1 << 60)]) for _ in batches)

    frame = spark.range(1).mapInArrow(named_task("greedy", greedy), "id long")
    message = failure(frame.collect)
    assert "lazydelta.errors.TaskMemoryError: a task got no memory: malloc of size" in message
    assert "Traceback" not in message
