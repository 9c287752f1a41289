"""Tables changed by lazydelta on Spark, then read and changed by the reference, and by us again.

A program (`tests.spark.reference`).
"""

from __future__ import annotations

from tests.spark.reference import QUICK, print_report

TABLES = {
    "vectors": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "mapped": {"delta.columnMapping.mode": "name"},
}


def round_trip(spark, url, properties):
    """Change a table by turns, and read it with both."""
    import lazydelta as ld
    import lazydelta.spark as executors

    rows = spark.range(0, 300, 1, 3).selectExpr("id", "id % 3 AS p", "concat('n', id) AS name")
    executors.write(rows, url, partition_by="p", properties=properties)
    executors.delete(spark, url, "id % 10 = 3")
    executors.update(spark, url, {"name": "upper(name)", "p": "p + 1"}, "id < 20")
    source = spark.range(290, 310).selectExpr("id", "0L AS p", "'merged' AS name")
    merge = executors.merge(spark, url, source, "t.id = s.id").when_matched_update("*")
    merged = merge.when_not_matched_insert("*").execute()
    middle = _both(spark, url)
    spark.sql(f"DELETE FROM delta.`{url}` WHERE id % 10 = 5")
    executors.delete(spark, url, "id % 10 = 6 OR name = 'merged' AND id % 2 = 0")
    feed = []
    if "delta.enableChangeDataFeed" in properties:
        reader = spark.read.format("delta").option("readChangeFeed", "true")
        changes = reader.option("startingVersion", merged.version).option(
            "endingVersion", merged.version
        )
        counted = changes.load(url).groupBy("_change_type").count().collect()
        feed = sorted([row["_change_type"], row["count"]] for row in counted)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{url}`").collect()
    return {
        "middle": middle,
        "end": _both(spark, url),
        "feed": feed,
        "operations": [row.operation for row in reversed(history)],
        "merge_metrics": dict(history[2].operationMetrics),
        "files": len(list(ld.Table.open(url).scan().files())),
    }


def _both(spark, url):
    """Return whether both read the same rows, and how many."""
    import lazydelta as ld

    here = sorted(
        map(repr, (tuple(row.values()) for row in ld.Table.open(url).scan().to_arrow().to_pylist()))
    )
    theirs = sorted(repr(tuple(row)) for row in spark.read.format("delta").load(url).collect())
    return [here == theirs, len(here)]


def report(spark, place):
    """Return the report of each table."""
    return {name: round_trip(spark, f"{place}/{name}", TABLES[name]) for name in TABLES}


if __name__ == "__main__":
    print_report(report, QUICK)
