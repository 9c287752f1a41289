"""The same calls through Spark Connect, where there is no JVM, no RDD and no SparkContext to reach."""

from __future__ import annotations

from lazydelta.testing import TableBuilder
from tests.contract.parity.test_live_files import LONG, LONG_LIVE, built

_CLIENT = """
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
    found = connect.run(_CLIENT, *places)
    assert [found[place] for place in places[:2]] == [LONG_LIVE, LONG_LIVE]
    assert found["small"] == len(LONG_LIVE)
    assert found["pruned"] == 1
    assert found["skipped"] == 1
    assert "LogCorruptError" in found["error"]
    assert "00000000000000000001.json" in found["error"]
