"""The operations of each engine on Spark: `python -m benchmarks.spark_engines SESSION`.

One process, one session of Spark, all operations of a workload; `SESSION` is a
`spark_cases.Session` as JSON. Each operation is timed as soon as it is done and printed as one line
of JSON, so that what a slow engine has measured before it is stopped is not lost. The last line has
the memory of the session.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks.engines import memory_of_process
from benchmarks.spark_cases import (
    APPENDS,
    DELTA,
    FORMAT,
    LOCAL,
    MERGED_ROWS,
    OURS,
    PARQUET,
    QUERIES,
    STREAM_BATCHES,
    STREAM_ROWS,
    Session,
    appended_rows,
    plan_filters,
)
from benchmarks.spec import FILTER_IDS, ID_SPAN

if TYPE_CHECKING:
    from benchmarks.spec import RowsSpec, TableSpec

__all__ = ["Memory", "Timing", "main"]

_HEAP = "4g"
_TARGET = 16 << 20
"""Size of the files that are optimized: several bins, whatever the size of the suite."""
_PARTITIONS = 200
_CURVE = ("value", "name")
_SOURCE_STEP = 2 * ID_SPAN // MERGED_ROWS
"""Between the ids of a MERGE's source: half of them are beyond the table, the others its rows."""
_REPEATS = 3
_CLEANING_SECONDS = 2.0
_LONG_SECONDS = 10.0  # what takes longer is repeated once: its noise is relatively small

Query = Callable[[Any, Any], int]
"""Takes a session and a DataFrame."""


@dataclass(slots=True, kw_only=True)
class Timing:
    """The seconds of an operation: the first time, or with nothing cached, and again."""

    name: str
    cold: list[float]
    warm: list[float]
    counts: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Memory:
    """Memory of a session in bytes; in local mode the heap has the executors' share."""

    start_seconds: float
    driver_rss: int
    driver_heap: int
    executors_memory: int


def _timed(operation: Callable[[], int]) -> tuple[float, int]:
    start = time.perf_counter()
    count = operation()
    return time.perf_counter() - start, count


def _series(operation: Callable[[], int], repeats: int) -> tuple[list[float], list[int]]:
    """Run an operation some times, a long one once; return its seconds and counts."""
    seconds, counts = [], []
    for _ in range(repeats):
        took, count = _timed(operation)
        seconds.append(took)
        counts.append(count)
        if took > _LONG_SECONDS:
            break
    return seconds, counts


def _first_and_again(name: str, operation: Callable[[], int]) -> Timing:
    cold, first = _series(operation, 1)
    warm, again = _series(operation, _REPEATS)
    return Timing(name=name, cold=cold, warm=warm, counts=first + again)


# --- plan: the files of a predicate ---------------------------------------------------------------


def _ours_files(spark: Any, path: str, where: str | None) -> int:
    from lazydelta import Table
    from lazydelta.spark import live_files

    files = live_files(spark, Table.open(path).snapshot(), where=where, fields=())
    return int(files.count() if where is None else files.select("path").toArrow().num_rows)


def _delta_files(spark: Any, path: str, where: str | None) -> int:
    if where is None:
        log = _delta_logs(spark).forTable(spark._jsparkSession, path)  # noqa: SLF001 - no other way
        return int(log.unsafeVolatileSnapshot().allFiles().count())
    frame = spark.read.format("delta").load(path).where(where)
    return len(frame._jdf.inputFiles())  # noqa: SLF001 - a list of Python takes longer


def _delta_logs(spark: Any) -> Any:
    return spark._jvm.org.apache.spark.sql.delta.DeltaLog  # noqa: SLF001 - has no Python API


def _plan(session: Session, spark: Any) -> Iterator[Timing]:
    """Time each predicate, after the first query of the session, which compiles and loads classes.

    Cold is the first query on a table that the session does not know; delta-spark forgets it.
    """
    spec = cast("TableSpec", session.spec)
    path, filters = str(spec.path), plan_filters(spec)
    is_delta = session.engine == DELTA
    files = _delta_files if is_delta else _ours_files

    def forget() -> None:
        if is_delta:
            _delta_logs(spark).clearCache()

    first, _ = _timed(lambda: files(spark, path, filters["statistics"]))
    yield Timing(name="session", cold=[first], warm=[])
    for where in filters.values():
        files(spark, path, where)
    for name, where in filters.items():
        timing = Timing(name=name, cold=[], warm=[])
        while len(timing.cold) < _REPEATS and sum(timing.cold) < _LONG_SECONDS / 4:
            forget()
            seconds, counts = _series(lambda: files(spark, path, where), 1)  # noqa: B023 - now
            timing.cold += seconds
            timing.counts += counts
        timing.warm, counts = _series(lambda: files(spark, path, where), _REPEATS)  # noqa: B023
        timing.counts += counts
        yield timing


# --- rows -----------------------------------------------------------------------------------------


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


_READERS: dict[str, Callable[[Any, str], Any]] = {
    OURS: _ours_rows,
    FORMAT: _format_rows,
    DELTA: _delta_rows,
    PARQUET: _parquet_rows,
}


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


_QUERIES: dict[str, Query] = {
    "read": _all_rows,
    "filter": _some_rows,
    "aggregate": _aggregate,
    "count": lambda _, rows: int(rows.count()),
    "join": _join,
}


def _rows(session: Session, spark: Any) -> Iterator[Timing]:
    reader, path = _READERS[session.engine], str(session.spec.path)
    is_short = session.workload == "deleted" or session.engine == PARQUET
    for name in QUERIES[:1] if is_short else QUERIES:
        query = _QUERIES[name]
        yield _first_and_again(name, lambda: query(spark, reader(spark, path)))  # noqa: B023


# --- appends --------------------------------------------------------------------------------------


def _new_rows(spark: Any, rows: int) -> Any:
    columns = (
        "id",
        "id / 3D AS value",
        "concat('category-', lpad(id % 40, 3, '0')) AS kind",
        "concat('customer-', lpad(id * 7, 11, '0')) AS name",
        f"cast(id * {_PARTITIONS} / {rows} AS int) AS part",
    )
    return spark.range(rows).selectExpr(*columns)


def _append(session: Session, spark: Any) -> Iterator[Timing]:
    from lazydelta.spark import write

    rows, numbers = appended_rows(cast("RowsSpec", session.spec)), itertools.count()

    def append(partition_by: tuple[str, ...], directory: str) -> int:
        url = f"{directory}/{next(numbers)}"
        if session.engine == OURS:
            write(_new_rows(spark, rows), url, mode="append", partition_by=partition_by)
        else:
            writer = _new_rows(spark, rows).write.format("delta").mode("append")
            writer.partitionBy(*partition_by).save(url)
        return rows

    for name, columns in zip(APPENDS, ((), ("part",)), strict=True):
        with tempfile.TemporaryDirectory(dir=session.spec.path.parent) as directory:
            yield _first_and_again(name, lambda: append(columns, directory))  # noqa: B023


# --- micro-batches --------------------------------------------------------------------------------


def _stream(session: Session, spark: Any) -> Iterator[Timing]:
    """Time a running stream until it has found nothing new, or has the rows of a new commit."""
    import pyarrow as pa

    import lazydelta
    from lazydelta.spark import register

    rows = pa.table({"id": range(STREAM_ROWS)})
    with tempfile.TemporaryDirectory(dir=session.spec.path.parent) as directory:
        table = lazydelta.Table.create(directory, "id bigint")
        table.write(rows)
        if session.engine == OURS:
            register(spark)
        reader = spark.readStream.format("lazydelta" if session.engine == OURS else "delta")
        writer = reader.load(directory).writeStream.format("memory").queryName("streamed")
        query = writer.trigger(processingTime="0 seconds").start()
        counted = 0

        def process() -> int:
            query.processAllAvailable()
            return 0

        def new_rows() -> int:
            nonlocal counted
            before, counted = counted, int(spark.table("streamed").count())
            return counted - before

        try:
            process()
            new_rows()
            for name in ("empty", "small"):
                timing = Timing(name=name, cold=[], warm=[])
                for number in range(1 + STREAM_BATCHES):
                    if name == "small":
                        table.write(rows)
                    seconds, _ = _timed(process)
                    (timing.warm if number else timing.cold).append(seconds)
                    timing.counts.append(new_rows())
                yield timing
        finally:
            query.stop()


# --- changes of a copy of the table ---------------------------------------------------------------


def _merge_source(spark: Any) -> Any:
    """Return a source of which half the rows match, scattered over the table."""
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


def _ours_optimize(*z_order: str) -> Query:
    def operation(spark: Any, path: str) -> int:
        from lazydelta.spark import optimize

        result = optimize(spark, path, target_size=_TARGET, z_order=z_order)
        return result.metrics["numRemovedFiles"]

    return operation


def _delta_optimize(*z_order: str) -> Query:
    def operation(spark: Any, path: str) -> int:
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(_TARGET))
        order = f" ZORDER BY ({', '.join(z_order)})" if z_order else ""
        done = spark.sql(f"OPTIMIZE delta.`{path}`{order}")
        return int(done.first()["metrics"]["numFilesRemoved"])

    return operation


_CHANGES: dict[str, dict[str, Query]] = {
    OURS: {
        "merge": _ours_merge,
        "optimize": _ours_optimize(),
        "cluster": _ours_optimize(*_CURVE),
    },
    DELTA: {
        "merge": _delta_merge,
        "optimize": _delta_optimize(),
        "cluster": _delta_optimize(*_CURVE),
    },
}


def _change(session: Session, spark: Any) -> Iterator[Timing]:
    """Change copies of the table; data files are links, because no engine changes them."""
    operation, path = _CHANGES[session.engine][session.workload], session.spec.path
    seconds, counts = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            copy = Path(place, "table")
            no_log = shutil.ignore_patterns("_delta_log")
            shutil.copytree(path, copy, ignore=no_log, copy_function=os.link)
            shutil.copytree(path / "_delta_log", copy / "_delta_log")
            took, count = _timed(lambda: operation(spark, str(copy)))  # noqa: B023 - called now
            seconds.append(took)
            counts.append(count)
    yield Timing(name=session.workload, cold=seconds[:1], warm=seconds[1:], counts=counts)


# --- a session ------------------------------------------------------------------------------------

_MEASURES: dict[str, Callable[[Session, Any], Iterator[Timing]]] = {
    "plan": _plan,
    "rows": _rows,
    "deleted": _rows,
    "append": _append,
    "stream": _stream,
}


def _start(engine: str, master: str) -> Any:
    from lazydelta.spark import local_session
    from tests.spark.jars import delta_conf, delta_jars

    conf = {"spark.master": master, "spark.driver.memory": _HEAP}
    if master != LOCAL:
        conf["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"
    if engine == DELTA:
        conf |= delta_conf(delta_jars())
    spark = local_session(conf=conf)
    spark.range(1000).selectExpr("sum(id)").collect()  # the scheduler is ready, but has no state
    return spark


def _stop(spark: Any) -> None:
    import pyspark

    files = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(files, ignore_errors=True)  # of local-cluster


def _live_heap(spark: Any) -> int:
    """Return the live heap of the JVM in bytes, after garbage collections."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # noqa: SLF001 - no public API
    for _ in range(2):  # Spark frees the broadcasts of finished queries after the first one
        spark._jvm.java.lang.System.gc()  # noqa: SLF001
        time.sleep(_CLEANING_SECONDS)
    return int(runtime.totalMemory() - runtime.freeMemory())


def _executors_memory() -> int:
    """Return the peak of the largest Python worker, plus the largest live heap of an executor.

    Not a sum of processes: a larger table keeps more workers busy.
    """
    parents, peaks, heaps = {}, {}, [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # it ended
            continue
        process = int(fields["Pid"])
        parents[process] = int(fields["PPid"])
        if fields["Name"].strip() != "java":
            peaks[process] = int(fields.get("VmHWM", "0 kB").split()[0]) * 1024
    largest = 0
    for process in parents:
        ancestors = [process]
        while (parent := parents.get(ancestors[-1])) is not None:
            ancestors.append(parent)
        # Below this process is the JVM of the driver, and below that are the executors.
        if os.getpid() not in ancestors[2:]:
            continue
        if process in peaks:
            largest = max(largest, peaks[process])
        else:
            heaps.append(_live_heap_of(process))
    return largest + max(heaps)


def _live_heap_of(process: int) -> int:
    """Return the live heap of another JVM in bytes, after a garbage collection.

    Its resident memory says little: a heap grows to its limit before it is collected.
    """
    java = Path("/proc", str(process), "exe").readlink()
    jcmd = [str(java.with_name("jcmd")), str(process)]
    subprocess.run([*jcmd, "GC.run"], check=True, capture_output=True)
    info = subprocess.run([*jcmd, "GC.heap_info"], check=True, capture_output=True, text=True)
    spaces = re.findall(r"(?:heap|generation) .* used (\d+)K", info.stdout)
    return sum(int(used) * 1024 for used in spaces)


def main(argument: str) -> None:
    """Print a line of JSON for each operation, then one for the memory, or one for the error."""
    warnings.simplefilter("ignore")
    session = Session.from_json(json.loads(argument))
    try:
        start = time.perf_counter()
        spark = _start(session.engine, session.master)
        seconds = time.perf_counter() - start
        for timing in _MEASURES.get(session.workload, _change)(session, spark):
            print(json.dumps({"timing": asdict(timing)}), flush=True)
        memory = Memory(
            start_seconds=seconds,
            driver_rss=memory_of_process("VmHWM"),
            driver_heap=_live_heap(spark),
            executors_memory=_executors_memory(),
        )
        print(json.dumps({"memory": asdict(memory)}), flush=True)
        _stop(spark)
    except Exception as error:  # noqa: BLE001 - a door: whatever it is becomes part of the report
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        print(json.dumps({"error": reason}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
