"""The same calls through Spark Connect, where there is no JVM, no RDD and no SparkContext to reach.

A process has a classic session or a Connect one, so this runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lazydelta.testing import TableBuilder
from tests.contract.parity.test_live_files import LONG, LONG_LIVE, built

pytest.importorskip("grpc", reason="Spark Connect needs `pip install 'lazydelta[spark]'`")

_CLIENT = """
import json, sys, warnings
from lazydelta import Config, Table
from lazydelta.spark import apply_data_skipping, distributed_log_replay, live_files, local_session

spark = local_session(cores=2, connect=True)
assert "connect" in type(spark).__module__, type(spark)
found = {}
for name in sys.argv[1:]:
    snapshot = Table.open(name).snapshot()
    rows = distributed_log_replay(spark, snapshot).collect()
    found[name] = sorted(
        row.path if row.deletionVector is None
        else f"{row.path}#{row.deletionVector.pathOrInlineDv.lstrip('0')}"
        for row in rows
    )
small = live_files(spark, Table.open(sys.argv[1]).snapshot(), fields=["path"])
found["small"] = small.count()
spark.conf.set("spark.databricks.delta.v2.distributedLogReplay.fileThreshold", "0")
found["pruned"] = live_files(spark, Table.open(sys.argv[-1]).snapshot(), where="id > 100").count()
last = Table.open(sys.argv[-1]).snapshot()
found["skipped"] = apply_data_skipping(distributed_log_replay(spark, last), last, "id > 100").count()
broken = Table.open(sys.argv[-1]).snapshot()
path = broken.store.root + "/" + broken.segment.tail[-1].path
with open(path, "a") as file:
    file.write('{"add":')
try:
    distributed_log_replay(spark, Table.open(sys.argv[-1]).snapshot()).collect()
except Exception as error:
    found["error"] = str(error)
print("FOUND " + json.dumps(found), flush=True)
spark.stop()
"""


def test_replay_through_connect(spark, tmp_path):
    layouts = ["checkpoint-in-between", "v2-parquet"]
    for layout in layouts:
        built(tmp_path / layout, LONG, layout)
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
    add = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    table = TableBuilder(tmp_path / "stats", schema={"id": "long"})
    table.commit({"add": add | {"path": "kept"}}).checkpoint()
    table.commit({"add": add | {"path": "dropped", "stats": stats}})
    places = [str(tmp_path / name) for name in (*layouts, "stats")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CLIENT, *places],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stdout + done.stderr
    found = json.loads(told[0].removeprefix("FOUND "))
    assert [found[place] for place in places[:2]] == [LONG_LIVE, LONG_LIVE]
    assert found["small"] == len(LONG_LIVE)
    assert found["pruned"] == 1
    assert found["skipped"] == 1
    assert "LogCorruptError" in found["error"]
    assert "00000000000000000001.json" in found["error"]
