"""The operation of each engine on Spark: `python -m benchmarks.spark_engines ENGINE WORKLOAD PATH`.

One process, one session, one operation; the session starts before the clock. Listing files is timed
as the first query of the session, when a user waits. A query of rows runs three times and the
faster of the last two counts, because the first is mostly JIT compilation. So do three changes of
the table, each of a fresh copy. The result goes to standard output as one line of JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from benchmarks.clock import Sample
from benchmarks.engines import memory_of_process
from benchmarks.spec import FILTER_DAY, FILTER_IDS

__all__ = [
    "APPENDED_ROWS",
    "DELTA",
    "FORMAT",
    "IN_PROCESS",
    "MERGED_ROWS",
    "OPERATIONS",
    "OURS",
    "PARQUET",
    "QUERIES",
]

OURS, DELTA, PARQUET = "lazydelta on Spark", "delta-spark", "spark.read.parquet"
FORMAT = "lazydelta format"
IN_PROCESS = "lazydelta"
MERGED_ROWS = 100_000
APPENDED_ROWS = 5_000_000
_SOURCE_STEP = 2_800
"""With ids in steps of seven, half of the source is beyond a table of 20 M rows."""
_HEAP = "4g"
_TARGET = 16 << 20
"""Size of the files that are optimized: several bins, whatever the size of the suite."""
_PARTITIONS = 200
_PARTITION = f"date = '{date(2026, 1, 1) + timedelta(days=FILTER_DAY)}'"

Operation = Callable[[Any, str], Any]
"""Takes a session and the table's path; returns a DataFrame of rows, or a number of files."""


def _ours_files(where: str | None) -> Operation:
    def operation(spark: Any, path: str) -> int:
        from lazydelta import Table
        from lazydelta.spark import distributed_log_replay

        files = distributed_log_replay(spark, Table.open(path).snapshot(), where=where)
        return len(files.select("path").collect()) if where else int(files.count())

    return operation


def _delta_partition(spark: Any, path: str) -> int:
    return len(spark.read.format("delta").load(path).where(_PARTITION).inputFiles())


def _delta_all(spark: Any, path: str) -> int:
    logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # noqa: SLF001 - no other way to its files
    snapshot = logs.forTable(spark._jsparkSession, path).unsafeVolatileSnapshot()  # noqa: SLF001
    return int(snapshot.allFiles().count())


def _ours_rows(spark: Any, path: str) -> Any:
    from lazydelta.spark import read

    return read(spark, path)


def _format_rows(spark: Any, path: str) -> Any:
    from lazydelta.spark import register

    register(spark)
    return spark.read.format("lazydelta").load(path)


def _delta_rows(spark: Any, path: str) -> Any:
    return spark.read.format("delta").load(path)


def _parquet_rows(spark: Any, path: str) -> Any:
    # As a directory: a list of files would be listed by a job with a task for each.
    return spark.read.option("pathGlobFilter", "*.parquet").parquet(path)


# --- queries of rows: each returns how many rows it counted ---------------------------------------


def _all_rows(_: Any, rows: Any) -> int:
    # Every value is hashed. (The reference connector cannot write rows with deletion vectors to
    # the `noop` sink.)
    return int(rows.selectExpr("count(*)", "bit_xor(xxhash64(*))").first()[0])


def _some_rows(spark: Any, rows: Any) -> int:
    return _all_rows(spark, rows.where(f"id BETWEEN {FILTER_IDS[0]} AND {FILTER_IDS[1]}"))


def _aggregate(_: Any, rows: Any) -> int:
    groups = rows.groupBy("kind").agg({"*": "count", "value": "sum", "ts": "max"})
    return sum(group["count(1)"] for group in groups.collect())


def _join(spark: Any, rows: Any) -> int:
    small = spark.range(40).selectExpr("concat('category-', lpad(id, 3, '0')) AS kind", "id AS n")
    return int(rows.join(small, "kind").selectExpr("count(*)", "sum(n * qty)").first()[0])


QUERIES: dict[str, Callable[[Any, Any], int]] = {
    "read": _all_rows,
    "filter": _some_rows,
    "aggregate": _aggregate,
    "count": lambda _, rows: int(rows.count()),
    "join": _join,
}


# --- changes of a copy of the table --------------------------------------------------------------


def _new_rows(spark: Any) -> Any:
    columns = (
        "id",
        "id / 3D AS value",
        "concat('category-', lpad(id % 40, 3, '0')) AS kind",
        "concat('customer-', lpad(id * 7, 11, '0')) AS name",
        f"cast(id * {_PARTITIONS} / {APPENDED_ROWS} AS int) AS part",
    )
    return spark.range(APPENDED_ROWS).selectExpr(*columns)


def _ours_append(*partition_by: str) -> Operation:
    def operation(spark: Any, path: str) -> int:
        from lazydelta.spark import write

        write(_new_rows(spark), f"{path}-new", mode="append", partition_by=partition_by)
        return APPENDED_ROWS

    return operation


def _delta_append(*partition_by: str) -> Operation:
    def operation(spark: Any, path: str) -> int:
        writer = _new_rows(spark).write.format("delta").mode("append")
        writer.partitionBy(*partition_by).save(f"{path}-new")
        return APPENDED_ROWS

    return operation


def _merge_source(spark: Any) -> Any:
    """Return a source of which about half the rows match, scattered over the table."""
    columns = (f"id * {_SOURCE_STEP} AS id", "id / 3D AS value", "cast(id % 9 AS int) AS qty")
    return spark.range(MERGED_ROWS).selectExpr(*columns)


def _ours_merge(spark: Any, path: str) -> int:
    from lazydelta.spark import merge

    statement = merge(spark, path, _merge_source(spark), "t.id = s.id")
    statement = statement.when_matched_update({"value": "s.value", "qty": "t.qty + s.qty"})
    values = {name: f"s.{name}" for name in ("id", "value", "qty")}
    metrics = statement.when_not_matched_insert(values).execute().metrics
    return metrics["numTargetRowsUpdated"] + metrics["numTargetRowsInserted"]


def _delta_merge(spark: Any, path: str) -> int:
    _merge_source(spark).createOrReplaceTempView("merge_source")
    statement = f"""
        MERGE INTO delta.`{path}` t USING merge_source s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET value = s.value, qty = t.qty + s.qty
        WHEN NOT MATCHED THEN INSERT (id, value, qty) VALUES (s.id, s.value, s.qty)
    """  # noqa: S608 - a path of ours
    done = spark.sql(statement)
    return int(done.first()["num_affected_rows"])


def _ours_optimize(*z_order: str) -> Operation:
    def operation(spark: Any, path: str) -> int:
        from lazydelta.spark import optimize

        result = optimize(spark, path, target_size=_TARGET, z_order=z_order)
        return result.metrics["numRemovedFiles"]

    return operation


def _delta_optimize(*z_order: str) -> Operation:
    def operation(spark: Any, path: str) -> int:
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(_TARGET))
        order = f" ZORDER BY ({', '.join(z_order)})" if z_order else ""
        done = spark.sql(f"OPTIMIZE delta.`{path}`{order}")
        return int(done.first()["metrics"]["numFilesRemoved"])

    return operation


_CURVE = ("value", "name")
_CHANGES = {"append", "merge", "optimize", "cluster"}

OPERATIONS: dict[str, dict[str, Operation]] = {
    OURS: {
        "partition": _ours_files(_PARTITION),
        "all": _ours_files(None),
        **dict.fromkeys(QUERIES, _ours_rows),
        "append": _ours_append(),
        "append: partitioned": _ours_append("part"),
        "merge": _ours_merge,
        "optimize": _ours_optimize(),
        "cluster": _ours_optimize(*_CURVE),
    },
    DELTA: {
        "partition": _delta_partition,
        "all": _delta_all,
        **dict.fromkeys(QUERIES, _delta_rows),
        "append": _delta_append(),
        "append: partitioned": _delta_append("part"),
        "merge": _delta_merge,
        "optimize": _delta_optimize(),
        "cluster": _delta_optimize(*_CURVE),
    },
    FORMAT: dict.fromkeys(QUERIES, _format_rows),
    PARQUET: {"read": _parquet_rows},
}
"""Engine, workload, and the code a user of the engine would write."""


def _session(engine: str) -> Any:
    from lazydelta.spark import local_session
    from tests.spark.jars import delta_conf, delta_jars

    conf = {"spark.driver.memory": _HEAP}
    if engine == DELTA:
        conf |= delta_conf(delta_jars())
    spark = local_session(conf=conf)
    spark.range(1000).selectExpr("sum(id)").collect()  # the scheduler is ready, but has no state
    return spark


def _live_heap(spark: Any) -> int:
    """Return the live heap of the JVM in bytes, after a garbage collection."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # noqa: SLF001 - no public API
    spark._jvm.java.lang.System.gc()  # noqa: SLF001
    return int(runtime.totalMemory() - runtime.freeMemory())


def _timed(operation: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = operation()
    return time.perf_counter() - start, result


def run(engine: str, workload: str, path: str) -> Sample:
    """Run one operation in a new session and return its sample."""
    sample = Sample()
    sample.import_seconds, spark = _timed(lambda: _session(engine))
    sample.base_rss = memory_of_process("VmRSS") + _live_heap(spark)
    _measure(sample, OPERATIONS[engine][workload], workload, spark, path)
    sample.peak_rss = memory_of_process("VmHWM") + _live_heap(spark)
    spark.stop()
    return sample


def _changed(operation: Operation, spark: Any, path: str) -> tuple[float, Any]:
    """Change a copy of the table; data files are links, because no engine changes them."""
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as place:
        copy = f"{place}/table"
        shutil.copytree(
            path, copy, ignore=shutil.ignore_patterns("_delta_log"), copy_function=os.link
        )
        shutil.copytree(f"{path}/_delta_log", f"{copy}/_delta_log")
        return _timed(lambda: operation(spark, copy))


def _measure(sample: Sample, operation: Operation, workload: str, spark: Any, path: str) -> None:
    """Run the operation and record its times and count."""
    if query := QUERIES.get(workload):

        def use() -> int:
            return query(spark, operation(spark, path))

        sample.first_seconds, _ = _timed(use)
        sample.total_seconds, sample.count = min(_timed(use) for _ in range(2))
    elif workload.partition(":")[0] in _CHANGES:
        runs = [_changed(operation, spark, path) for _ in range(3)]
        sample.first_seconds, _ = runs[0]
        sample.total_seconds, sample.count = min(runs[1:])
    else:
        sample.total_seconds, sample.count = _timed(lambda: operation(spark, path))
        sample.first_seconds = sample.total_seconds


def main(engine: str, workload: str, path: str) -> None:
    """Print the sample as JSON, including an error of the engine."""
    warnings.simplefilter("ignore")
    try:
        sample = run(engine, workload, path)
    except Exception as error:  # noqa: BLE001 - a door: whatever it is becomes part of the report
        sample = Sample(error=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    print(json.dumps(asdict(sample)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
