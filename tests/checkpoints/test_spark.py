"""The reference engine reads our checkpoints, checksums and compactions, and goes on from them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lazydelta import Table
from tests.spark.jars import JarsMissingError, delta_jars

pytestmark = [pytest.mark.spark, pytest.mark.long]

# In a process of its own: a JVM has the JARs of its first session for ever.
_SESSION = """
import json, sys
from lazydelta.spark import local_session
from tests.spark.jars import delta_conf, delta_jars
few = {"spark.databricks.delta.snapshotPartitions": "2", "spark.sql.shuffle.partitions": "2"}
spark = local_session(cores=2, conf=delta_conf(delta_jars()) | few)
def read(path):
    return spark.read.format("delta").load(path)
path, append = sys.argv[1], sys.argv[2] == "append"
found = {"rows": read(path).count(), "of_a_day": read(path).where("day = '1970-01-02'").count()}
if append:
    read(path).limit(2).write.format("delta").mode("append").save(path)
history = spark.sql(f"describe history delta.`{path}`").collect()
print(json.dumps(found | {"newest": history[0].version}))
spark.stop()
"""


def in_spark(path, *, append=False):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _SESSION, str(path), "append" if append else "read"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_it_reads_and_goes_on(tmp_path, policy):
    try:
        delta_jars()
    except JarsMissingError as error:
        pytest.skip(str(error))
    properties = {"delta.checkpointInterval": "3", "delta.checkpointPolicy": policy}
    table = Table.create(
        tmp_path, "id bigint, day date", partition_by=["day"], properties=properties
    )
    rows = pa.table({"id": [1, 2], "day": pa.array([1, 2], pa.date32())})
    for _ in range(8):
        table.write(rows)
    table.compact_log(7, 8)
    for version in range(6):
        (tmp_path / f"_delta_log/{version:020d}.json").unlink()
    assert in_spark(tmp_path, append=True) == {"rows": 16, "of_a_day": 8, "newest": 9}
    assert (table.version(), table.to_arrow().num_rows) == (9, 18)
    assert table.check().checksum.status in ("matches", "missing")
    table.write(rows)
    assert table.check().checksum.status == "matches"
    assert in_spark(tmp_path) == {"rows": 20, "of_a_day": 10, "newest": 10}
