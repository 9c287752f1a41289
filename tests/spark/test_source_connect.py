"""Source, changes and streams through Spark Connect."""

from __future__ import annotations

import pyarrow as pa

from tests.changes.support import FeedTable

_CLIENT = """
from lazydelta.spark import changes, described, register

register(spark)
(url,) = args
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
"""


def test_source_changes_and_stream_through_connect(connect, tmp_path):
    table = FeedTable(tmp_path / "table")
    for number in range(3):
        ids = pa.table({"id": pa.array([2 * number, 2 * number + 1], pa.int64())})
        table.commit(table.add(f"f{number}", ids))
    found = connect.run(_CLIENT, table.directory)
    assert found["source"] == [3]
    assert found["changes"] == [[1, "insert", 2], [1, "insert", 3], [2, "insert", 4]]
    assert found["stream"] == [0, 1, 2, 3, 4, 5]
    assert "there is no such option" in found["error"]
    assert "hush-hush" not in found["error"]
