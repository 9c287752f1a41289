"""Tables that the reference implementation and lazydelta maintain in turns.

A program (`tests.spark.reference`) that reports what each of them found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.spark import tuning
from tests.spark.reference import QUICK, print_report

if TYPE_CHECKING:
    from pathlib import Path

_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointInterval": "3",
    "delta.checkpointPolicy": "v2",
}


def _create(spark, url):
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in _PROPERTIES.items())
    table = f"delta.`{url}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({properties})"
    )
    values = "element_at(array('a/b', 'x y', '50%', NULL), cast(id % 4 + 1 AS INT))"
    spark.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(0, 80, 1, 1)")
    spark.sql(f"DELETE FROM {table} WHERE id % 20 = 3")
    spark.sql(f"UPDATE {table} SET id = id + 1000 WHERE id % 20 = 4")
    spark.sql(f"DELETE FROM {table} WHERE p = 'x y'")
    return table


def _ids(spark, table):
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {table}").collect())


def report(spark, place: Path):
    """Vacuum, restore and clean up, by one and by the other."""
    url = str(place / "t")
    table, ours = _create(spark, url), ld.Table.open(place / "t")
    expected = _ids(spark, table)
    dry_run = spark.sql(f"VACUUM {table} RETAIN 0 HOURS DRY RUN").collect()
    theirs = {row.path.split(f"{url}/")[-1] for row in dry_run}
    found = {
        "same_rows": sorted(ours.to_arrow()["id"].to_pylist()) == expected,
        "theirs": sorted(map(unquote, theirs)),
        "ours": sorted(map(unquote, ours.vacuum(0, "full", force=True).paths)),
    }
    result = ours.vacuum(0, "full", force=True, dry_run=False)
    found["deleted"] = result.files_deleted
    found["after_vacuum"] = _ids(spark, table) == expected
    history = spark.sql(f"DESCRIBE HISTORY {table}").collect()
    found["operations"] = [row.operation for row in history[:2]]
    found["status"] = history[0].operationParameters
    found["metrics"] = history[0].operationMetrics
    spark.sql(f"INSERT INTO {table} VALUES (1, 'new')")
    version = ours.version
    spark.sql(f"DELETE FROM {table}")
    ours.restore(version)
    found["after_restore"] = _ids(spark, table) == sorted([*expected, 1])
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version + 1}")
    found["after_their_restore"] = ours.to_arrow().num_rows
    ours.restore(version)
    spark.sql(f"VACUUM {table} LITE RETAIN 0 HOURS")
    found["after_their_lite"] = sorted(ours.to_arrow()["id"].to_pylist()) == sorted([*expected, 1])
    found["health"] = ours.health().severity
    return found | _cluster(spark, str(place / "clustered"))


def _cluster(spark, url):
    """Cluster a table of the reference on executors of ours."""
    table = f"delta.`{url}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, x BIGINT) USING delta CLUSTER BY (x, id)")
    for start in range(0, 4000, 1000):
        rows = f"range({start}, {start + 1000}, 1, 1)"
        spark.sql(f"INSERT INTO {table} SELECT id, id * 7919 % 1000 FROM {rows}")
    tuning.CLUSTERED_IN_ONE_TASK = 0
    result = executors.optimize(spark, url, target_size=8000)
    (totals,) = spark.sql(f"SELECT count(*) n, sum(id) i, sum(x) x FROM {table}").collect()
    spark.sql(f"INSERT INTO {table} VALUES (1, 1)")
    spark.sql(f"OPTIMIZE {table} FULL")
    return {
        "clustered": result.to_dict()["metrics"],
        "totals": list(totals),
        "then": ld.Table.open(url).count(),
    }


if __name__ == "__main__":
    unchecked = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    print_report(report, QUICK | unchecked)
