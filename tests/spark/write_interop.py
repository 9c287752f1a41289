"""Tables written by lazydelta on Spark, then read and written by the reference implementation.

A program (`tests.spark.reference`).
"""

from __future__ import annotations

from tests.spark.reference import QUICK, print_report

BY_EXECUTORS = {"spark.lazydelta.distributedLogReplay.fileThreshold": "0"}
TABLES = {
    "plain": {},
    "v2": {"delta.checkpointPolicy": "v2", "delta.columnMapping.mode": "name"},
}
FRAME = (
    "id",
    "concat('n', id) AS name",
    "cast(id AS decimal(20, 4)) AS price",
    "timestamp_micros(id * 1000003) AS at",
    "array(id, NULL) AS list",
    "map('k', named_struct('x', id)) AS scores",
    "element_at(array('a/b', 'x=%2F', NULL), cast(id % 3 + 1 AS int)) AS p",
)


def round_trip(spark, url, properties):
    """Write alternately with the reference, and read everything with both."""
    import lazydelta as ld
    import lazydelta.spark as executors

    rows = spark.range(0, 300, 1, 3).selectExpr(*FRAME)
    executors.write(rows, url, partition_by="p", properties=properties)
    more = rows.selectExpr("id + 1000 AS id", *rows.columns[1:])
    more.write.format("delta").mode("append").save(url)
    third = rows.selectExpr("id + 2000 AS id", *rows.columns[1:], "1 AS extra")
    sink = third.write.format("lazydelta").mode("append").option("mergeSchema", "true")
    sink.save(url)
    spark.sql(f"DELETE FROM delta.`{url}` WHERE id % 50 = 0")
    part = third.where("p = 'a/b'")
    executors.write(part, url, "overwrite", where="p = 'a/b'")
    made = executors.checkpoint(spark, url)
    before_append = spark.read.format("delta").load(url).count()
    third.limit(5).write.format("delta").mode("append").option("mergeSchema", "true").save(url)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{url}`").collect()
    here = ld.Table.open(url).scan().to_arrow()
    theirs = spark.read.format("delta").load(url)
    return {
        "checkpoint": [made.version, made.is_new, made.removes > 0],
        "before_append": before_append,
        "rows": [here.num_rows, theirs.count()],
        "equal": sorted(map(str, here.column("id").to_pylist()))
        == sorted(str(row.id) for row in theirs.select("id").collect()),
        "operations": [row.operation for row in reversed(history)],
        "first": spark.read.format("delta").option("versionAsOf", 0).load(url).count(),
        "skipped": theirs.where("at < timestamp_micros(5000000) AND id < 10").count(),
    }


def report(spark, place):
    """Return the report of each table."""
    from lazydelta.spark import register

    register(spark)
    return {name: round_trip(spark, f"{place}/{name}", TABLES[name]) for name in TABLES}


if __name__ == "__main__":
    print_report(report, QUICK | BY_EXECUTORS)
