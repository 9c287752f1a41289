"""Delta Spark reads our checkpoints, checksums and compactions, and appends to the table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import Table
from tests.spark.reference import print_report, run_program

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = "tests.unit.checkpoint.test_spark"


def report(spark, path, *append):
    """Return the row counts that Delta Spark reads, and the newest version after its append."""
    table = spark.read.format("delta").load(str(path))
    found = {"rows": table.count(), "of_a_day": table.where("day = '1970-01-02'").count()}
    if append:
        table.distinct().write.format("delta").mode("append").save(str(path))
    history = spark.sql(f"describe history delta.`{path}`").collect()
    return found | {"newest": history[0].version}


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_delta_spark_reads_and_appends(tmp_path, policy):
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
    assert run_program(PROGRAM, tmp_path, "append") == {"rows": 16, "of_a_day": 8, "newest": 9}
    assert (table.version, table.to_arrow().num_rows) == (9, 18)
    assert table.check().checksum.status in ("matches", "missing")
    table.write(rows)
    assert table.check().checksum.status == "matches"
    assert run_program(PROGRAM, tmp_path) == {"rows": 20, "of_a_day": 10, "newest": 10}


if __name__ == "__main__":
    print_report(report)
