"""The same calls through Spark Connect, where there is no JVM, no RDD and no SparkContext to reach.

All in this file, so that one process of `make test` runs them and starts one server.
"""

from __future__ import annotations

import json
import re
import subprocess

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import ConfigError
from lazydelta.spark import connect_session
from tests.builders import TableBuilder
from tests.cli.support import command, environment, run
from tests.contract.parity.test_live_files import LONG, LONG_LIVE, built
from tests.spark.maintained_tables import create
from tests.spark.maintained_tables import rows_of as rows_with_ids
from tests.spark.test_read import FIELDS, numbers
from tests.spark.test_write import rows_of
from tests.unit.changes.support import FeedTable
from tests.unit.scan.read.tables import Rows, inline

pytestmark = pytest.mark.spark4  # the package of 3.5 has no server of Spark Connect

_REPLAY = """
from lazydelta import Table
from lazydelta.spark import apply_data_skipping, distributed_log_replay, live_files

for name in args:
    snapshot = Table.open(name).snapshot()
    rows = distributed_log_replay(spark, snapshot).collect()
    found[name] = sorted(
        row.path if row.deletionVector is None
        else f"{row.path}#{row.deletionVector.pathOrInlineDv.lstrip('0')}"
        for row in rows
    )
small = live_files(spark, Table.open(args[0]).snapshot(), fields=["path"])
found["small"] = small.count()
spark.conf.set("spark.databricks.delta.v2.distributedLogReplay.fileThreshold", "0")
found["pruned"] = live_files(spark, Table.open(args[-1]).snapshot(), where="id > 100").count()
last = Table.open(args[-1]).snapshot()
found["skipped"] = apply_data_skipping(distributed_log_replay(spark, last), last, "id > 100").count()
broken = Table.open(args[-1]).snapshot()
path = broken.store.root + "/" + broken.segment.tail[-1].path
with open(path, "a") as file:
    file.write('{"add":')
try:
    distributed_log_replay(spark, Table.open(args[-1]).snapshot()).collect()
except Exception as error:
    found["error"] = str(error)
spark.conf.unset("spark.databricks.delta.v2.distributedLogReplay.fileThreshold")
"""


def test_replay_through_connect(connect, tmp_path):
    layouts = ["checkpoint-in-between", "v2-parquet"]
    for layout in layouts:
        built(tmp_path / layout, LONG, layout)
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
    add = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    table = TableBuilder(tmp_path / "stats", schema={"id": "long"})
    table.commit({"add": add | {"path": "kept"}}).checkpoint()
    table.commit({"add": add | {"path": "dropped", "stats": stats}})
    places = [str(tmp_path / name) for name in (*layouts, "stats")]
    found = connect.run(_REPLAY, *places)
    assert [found[place] for place in places[:2]] == [LONG_LIVE, LONG_LIVE]
    assert found["small"] == len(LONG_LIVE)
    assert found["pruned"] == 1
    assert found["skipped"] == 1
    assert "LogCorruptError" in found["error"]
    assert "00000000000000000001.json" in found["error"]


_ROWS = """
from pyspark.sql import functions as f

from lazydelta.spark import explain_read, read
from tests.spark.read_cases import assert_same_rows

few, many = args
for path in (few, many):
    found[path] = explain_read(spark, path)["rows"]["path"]
    assert_same_rows(spark, path)
assert_same_rows(spark, few, where="id > 10 and name = 'n3'", columns=["id"])
spark.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
assert_same_rows(spark, many)
for path in (few, many):
    rows = read(spark, path)
    chosen = rows.where((rows.id > 10) & f.col("id").isin(11, 12, 80)).where(rows.id < 20)
    found[path + "-pushed"] = sorted(row.id for row in chosen.select(rows.id).collect())
    found[path + "-sorted"] = [row.id for row in chosen.select("id").orderBy("name").collect()]
    found[path + "-count"] = rows.where("id < 5").count()
spark.conf.unset("spark.lazydelta.distributedLogReplay.fileThreshold")
"""


def test_rows_through_connect(connect, tmp_path):
    few = Rows(tmp_path / "few", FIELDS, features=("deletionVectors",))
    few.file("a b.parquet", numbers(0, 50)).file("b.parquet", numbers(50, 90), vector=inline([1]))
    few.open()
    many = Rows(tmp_path / "many", FIELDS)
    for at in range(33):
        many.file(f"{at}.parquet", numbers(at, at + 1))
    many.open()
    found = connect.run(_ROWS, few.path, many.path)
    assert found[str(few.path)] == "native and arrow"
    assert found[str(many.path)] == "arrow"
    for path in (few.path, many.path):
        assert found[f"{path}-pushed"] == found[f"{path}-sorted"] == [11, 12]
        assert found[f"{path}-count"] == 5


_SOURCE = """
from lazydelta.spark import changes, described, register

register(spark)
(url,) = args
with described(spark, "lazydelta, through Connect"):
    rows = spark.read.format("lazydelta").option("columns", "id").option("versionAsOf", 1).load(url)
    found["source"] = sorted(row.id for row in rows.where("id > 2").collect())
found["changes"] = sorted(
    [row["_commit_version"], row["_change_type"], row.id]
    for row in changes(spark, url, starting_version=1, where="id != 5").collect()
)
writer = spark.readStream.format("lazydelta").load(url).writeStream.format("memory")
query = writer.queryName("copy").trigger(availableNow=True).start()
query.awaitTermination()
found["stream"] = sorted(row.id for row in spark.table("copy").collect())
try:
    spark.read.format("lazydelta").option("sig", "hush-hush").load(url).collect()
except Exception as error:
    found["error"] = str(error)
"""


@pytest.mark.long
def test_source_changes_and_stream_through_connect(connect, tmp_path):
    table = FeedTable(tmp_path / "table")
    for number in range(3):
        ids = pa.table({"id": pa.array([2 * number, 2 * number + 1], pa.int64())})
        table.commit(table.add(f"f{number}", ids))
    found = connect.run(_SOURCE, table.directory)
    assert found["source"] == [3]
    assert found["changes"] == [[1, "insert", 2], [1, "insert", 3], [2, "insert", 4]]
    assert found["stream"] == [0, 1, 2, 3, 4, 5]
    assert "lazydelta has no such option" in found["error"]
    assert "hush-hush" not in found["error"]


_WRITES = """
import lazydelta.spark as executors

executors.register(spark)
written, formatted, streamed, place = args
frame = spark.range(0, 20, 1, 2).selectExpr("id", "id % 3 AS p")
result = executors.write(frame, written, partition_by="p")
found["write"] = [result.version, result.rows, result.files_added]
sink = frame.write.format("lazydelta").option("partitionBy", "p")
sink.mode("append").save(formatted)
stream = spark.readStream.format("lazydelta").load(written).writeStream.format("lazydelta")
query = stream.option("checkpointLocation", place).trigger(availableNow=True).start(streamed)
query.awaitTermination()
found["id"] = str(query.id)
try:
    executors.write(frame.selectExpr("id AS other"), written, "append")
except Exception as error:
    found["error"] = type(error).__name__
"""


def test_writes_through_connect(connect, tmp_path):
    places = [tmp_path / name for name in ("written", "formatted", "streamed", "checkpoint")]
    found = connect.run(_WRITES, *places)
    assert found["write"] == [0, 20, 3]
    assert found["error"] == "SchemaMismatchError"
    expected = [{"id": at, "p": at % 3} for at in range(20)]
    for url in places[:3]:
        assert rows_of(url) == expected
    steps = Table.open(places[2]).snapshot().transactions()
    assert [(app, step.version) for app, step in steps.items()] == [(found["id"], 0)]


_MAINTENANCE = """
import lazydelta.spark as executors
from lazydelta.spark import tuning

spark.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
kept, tuning.CLUSTERED_IN_ONE_TASK, url = tuning.CLUSTERED_IN_ONE_TASK, 0, args[0]
try:
    clustered = executors.optimize(spark, url, z_order=["x", "id"], target_size=2000)
finally:
    tuning.CLUSTERED_IN_ONE_TASK = kept
found["clustered"] = clustered.metrics
found["version"] = executors.restore(spark, url, int(args[1])).version
found["purged"] = executors.purge(spark, url).metrics["numDeletionVectorsRemoved"]
for mode in ("lite", "full"):
    done = executors.vacuum(spark, url, 0, mode, force=True, dry_run=False)
    found[mode] = [done.files_to_delete, done.files_deleted]
spark.conf.unset("spark.lazydelta.distributedLogReplay.fileThreshold")
"""


@pytest.mark.long  # four verbs; classic sessions run the same jobs in the tests of each verb
def test_maintenance_through_connect(connect, tmp_path):
    table = create(tmp_path)
    rows, version = rows_with_ids(tmp_path), table.version
    (tmp_path / "orphan").write_bytes(b"123")
    found = connect.run(_MAINTENANCE, tmp_path, version)
    assert found["clustered"]["numRemovedFiles"] == 6
    assert found["clustered"]["numAddedFiles"] > 2
    assert found["version"] == version + 2
    assert found["purged"] == 6
    assert found["lite"] == [found["lite"][1]] * 2
    assert found["lite"][0] > 6
    assert found["full"] == [1, 1]
    assert rows_with_ids(tmp_path) == rows
    table = Table.open(tmp_path)
    live = {file.path for file in table.scan().files()}
    assert {path.name for path in tmp_path.glob("*.parquet")} == live


def test_the_command_line_joins_a_server(connect_url, tmp_path):
    table = FeedTable(tmp_path, schema={"id": "long"})
    table.commit(table.add("f", pa.table({"id": pa.array([1, 2, 3], pa.int64())})))
    done = subprocess.run(
        command("spark", "read", tmp_path, "--where", "id > 1", "--json", "--remote", connect_url),
        env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [2, 3]
    refused = subprocess.run(
        command("spark", "plan", tmp_path, "--remote", connect_url, "--conf", "spark.driver.memory=1g"),
        env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "spark.driver.memory: the server refuses this setting" in refused.stderr


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("spark://host:7077", "is not a Spark Connect URL, such as sc://host:15002"),
        ("sc://host:port", "is not a Spark Connect URL"),
        ("sc://127.0.0.1:1", "no Spark Connect server at 127.0.0.1:1"),
    ],
)
def test_an_address_where_no_server_is(address, reason):
    with pytest.raises(ConfigError, match=re.escape(reason)):
        connect_session(address)


def test_options_that_a_server_cannot_take(tmp_path):
    result = run("spark", "plan", tmp_path, "--remote", "sc://127.0.0.1:1", "--cores", "2")
    assert result.exit_code == 2
    assert "--ui and --cores apply to a local session" in result.stderr
    options = ["--storage-option", "account_name=x"]
    result = run("spark", "plan", tmp_path, "--remote", "sc://127.0.0.1:1", *options)
    assert result.exit_code == 2
    assert "do not reach the executors of a --remote server" in result.stderr


_DAMAGED = """
import lazydelta.spark as lds

lds.register(spark)
url, missing, absent = args
for door, run in {
    "read": lambda: lds.read(spark, url, path="arrow").collect(),
    "native": lambda: lds.read(spark, url, path="native").collect(),
    "missing": lambda: lds.read(spark, missing, path="native"),
    "format": lambda: spark.read.format("lazydelta").load(url).collect(),
    "delete": lambda: lds.delete(spark, url, "id = 1"),
    "absent": lambda: lds.read(spark, absent),
    "column": lambda: lds.read(spark, url, where="nowhere = 1"),
    "option": lambda: spark.read.format("lazydelta").option("nothing", 1).load(url).collect(),
}.items():
    try:
        run()
    except Exception as error:
        found[door] = f"{type(error).__name__}: {error}"
"""


def test_errors_through_connect_are_short_and_typed(connect, tmp_path):
    Table.open(tmp_path / "t").write({"id": [1, 2], "v": [1, 1]})
    (file,) = (tmp_path / "t").glob("*.parquet")
    file.write_bytes(b"no Parquet" * 100)
    Table.open(tmp_path / "missing").write({"id": [1]})
    next((tmp_path / "missing").glob("*.parquet")).unlink()
    found = connect.run(_DAMAGED, tmp_path / "t", tmp_path / "missing", tmp_path / "absent")
    expected = dict.fromkeys(("read", "format", "delete"), "lazydelta.errors.DataFileError: ")
    expected |= {"native": "DataFileError: cannot read ", "absent": "TableNotFoundError: "}
    expected |= {"missing": "DataFileNotFoundError: part-"}
    expected |= {"column": "ColumnNotFoundError: ", "option": "lazydelta.errors.ConfigError: "}
    for door, text in expected.items():
        assert text in found[door], door
        assert file.name in found[door] or door not in ("read", "native", "format", "delete"), door
        assert "Traceback" not in found[door], door
        assert len(found[door]) < 1000, door
    assert "is not a Parquet file" in found["native"]


_VERBS = """
import lazydelta.spark as executors

(url,) = args
found["deleted"] = executors.delete(spark, url, "id % 10 = 3").metrics["numDeletedRows"]
found["updated"] = executors.update(spark, url, {"v": "hash(id) * 0"}, "id = 5").version
source = spark.createDataFrame([(7, 70), (50, 500)], "id bigint, v bigint")
merge = executors.merge(spark, url, source, "t.id = s.id").when_matched_update("*")
found["merged"] = merge.when_not_matched_insert("*").execute().metrics["numOutputRows"]
"""


def test_verbs_through_connect(connect, tmp_path):
    ids, properties = [*range(30)], {"delta.enableDeletionVectors": "true"}
    Table.open(tmp_path).write({"id": ids, "v": ids}, properties=properties)
    found = connect.run(_VERBS, tmp_path)
    assert (found["deleted"], found["updated"], found["merged"]) == (3, 2, 2)
    rows = {row["id"]: row["v"] for row in Table.open(tmp_path).scan().to_arrow().to_pylist()}
    assert rows == {n: n for n in ids if n % 10 != 3} | {5: 0, 7: 70, 50: 500}


_NAMES = """
import lazydelta.spark as lds
from pyspark.sql import functions as f

lds.register(spark)
lds.attach(spark, {"connected": args[0]})
frame = lds.sql(spark, "SELECT connected.id FROM connected WHERE id > 1 ORDER BY id")
found["query"] = [row.id for row in frame.collect()]
lds.sql(spark, "INSERT INTO connected VALUES (9)")
found["newest"] = spark.sql("SELECT max(id) FROM connected").first()[0]
table = lds.DeltaTable.forName(spark, "connected")
table.delete((f.col("id") == 1) | f.col("id").isin(2))
source = spark.createDataFrame([(3,), (20,)], "id bigint").alias("new")
merged = table.alias("old").merge(source, "old.id = new.id").whenMatchedDelete()
found["merged"] = list(merged.whenNotMatchedInsertAll().execute().first())
found["rows"] = sorted(row.id for row in table.toDF().collect())
history = spark.sql(f"SELECT operation FROM delta_history('{args[0]}', 1)")
found["history"] = history.first()[0]
spark.sql("DROP TABLE connected")
lds.ship(spark)
"""


def test_names_statements_and_delta_table_through_connect(connect, tmp_path):
    Table.create(tmp_path / "t", "id bigint").write({"id": [1, 2, 3]})
    found = connect.run(_NAMES, str(tmp_path / "t"))
    assert found["query"] == [2, 3]
    assert found["newest"] == 9
    assert found["merged"] == [2, 0, 1, 1]
    assert found["rows"] == [9, 20]
    assert found["history"] == "MERGE"
