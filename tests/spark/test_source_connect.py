"""Source, changes and streams through Spark Connect: in a process of its own, as a client is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.changes.support import FeedTable

pytest.importorskip("grpc", reason="Spark Connect needs `pip install 'lazydelta[spark]'`")

_CLIENT = """
import json, sys
from lazydelta.spark import changes, described, local_session, register

spark = local_session(cores=2, connect=True)
assert "connect" in type(spark).__module__, type(spark)
register(spark)
url = sys.argv[1]
found = {}
with described(spark, "lazydelta, through Connect"):
    rows = spark.read.format("lazydelta").option("columns", "id").option("versionAsOf", 1).load(url)
    found["source"] = sorted(row.id for row in rows.where("id > 2").collect())
found["changes"] = sorted(
    [row["_commit_version"], row["_change_type"], row.id]
    for row in changes(spark, url, start_version=1, where="id != 5").collect()
)
writer = spark.readStream.format("lazydelta").load(url).writeStream.format("memory")
query = writer.queryName("copy").trigger(availableNow=True).start()
query.awaitTermination()
found["stream"] = sorted(row.id for row in spark.table("copy").collect())
try:
    spark.read.format("lazydelta").option("sig", "hush-hush").load(url).collect()
except Exception as error:
    found["error"] = str(error)
print("FOUND " + json.dumps(found), flush=True)
spark.stop()
"""


def test_source_changes_and_stream_through_connect(spark, tmp_path):
    del spark  # only to be skipped where there is no Java
    table = FeedTable(tmp_path / "table")
    for number in range(3):
        ids = pa.table({"id": pa.array([2 * number, 2 * number + 1], pa.int64())})
        table.commit(table.add(f"f{number}", ids))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CLIENT, str(table.directory)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stdout + done.stderr
    found = json.loads(told[0].removeprefix("FOUND "))
    assert found["source"] == [3]
    assert found["changes"] == [[1, "insert", 2], [1, "insert", 3], [2, "insert", 4]]
    assert found["stream"] == [0, 1, 2, 3, 4, 5]
    assert "there is no such option" in found["error"]
    assert "hush-hush" not in found["error"]
