"""Verbs on a cluster of separate executor processes, while a fault strikes their tasks.

Run as a program, because a cluster needs a session of its own: `python -m tests.spark.cluster_losses
MASTER DIRECTORY [SCENARIO...]` prints a line of JSON for each scenario: what the verb returned, or
its error, and what happened to its tasks. The scenario's table is in the directory of its name.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path

from tests.spark.losses import digest
from tests.spark.workers import PRELOADED

EXECUTOR = "CoarseGrainedExecutorBackend"
SLOW_SECONDS = 60
"""Sleep of a slow attempt; Spark ends it when another attempt is done."""
CONF = {
    **PRELOADED,
    "spark.executor.memory": "768m",
    "spark.task.maxFailures": "4",  # the default of a cluster
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.speculation.task.duration.threshold": "4s",
    # MERGE without a checkpoint directory unsets it for itself.
    "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false",
}
REPLAY = {
    "spark.lazydelta.distributedLogReplay.fileThreshold": "0",
    "spark.lazydelta.distributedLogReplay.numPartitions": "4",
}


# --- faults ---------------------------------------------------------------------------------------


def lose_executor():
    """Kill the executor of this Python worker, by its process id."""
    process = os.getpid()
    while process > 1:
        if EXECUTOR in Path(f"/proc/{process}/cmdline").read_text():
            os.kill(process, signal.SIGKILL)
            time.sleep(SLOW_SECONDS)  # the worker ends with its executor
        stat = Path(f"/proc/{process}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])


def struck(fault, name, function, *arguments):
    """Run a task; a fault strikes after its work is done, and its files are written."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition, attempt = context.partitionId(), context.attemptNumber()

    def marked(what):
        """Record what happened to this attempt."""
        mark = f"{what}.{name}.{context.stageId()}.{partition}.{attempt}"
        Path(fault["marks"], mark).touch()

    def is_first():
        """Return whether it is the first time that the fault strikes."""
        try:
            os.close(os.open(Path(fault["marks"], "struck"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    kind, is_named = fault["kind"], fault["task"] in (name, None)
    marked("started")
    results = list(function(*arguments))
    if kind == "twice" and partition == 0 and attempt < 2:
        marked("lost")
        if attempt:
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("lost after its work was done")
    if kind == "executor" and is_named and partition == fault["partition"] and is_first():
        marked("killed")
        lose_executor()
    if kind == "slow" and is_named and partition == 0 and is_first():
        marked("slow")
        time.sleep(SLOW_SECONDS)
    yield from results


def task_name(function, arguments):
    """The name of a task; some functions only call another one, which is an argument."""
    if function.__name__ in ("_read_splits", "_map_parts", "_map_batches"):
        function = next(getattr(one, "func", one) for one in arguments if callable(one))
    return function.__name__


@contextmanager
def striking(fault):
    """Let a fault strike the tasks that are planned inside the block."""
    from lazydelta.spark import jobs

    Path(fault["marks"]).mkdir(parents=True)
    run = jobs._run
    jobs._run = lambda function, *rest: struck(
        fault, task_name(function, rest), run, function, *rest
    )
    try:
        yield
    finally:
        jobs._run = run


# --- verbs ----------------------------------------------------------------------------------------


def replay(spark, url):
    import lazydelta as ld
    from lazydelta.spark import distributed_log_replay

    files = distributed_log_replay(spark, ld.Table.open(url).snapshot(), 8, fields=["path"])
    return {"rows": digest(row["path"] for row in files.select("path").collect())}


def read(spark, url):
    import lazydelta.spark as lds

    return {"rows": digest(tuple(row) for row in lds.read(spark, url, path="arrow").collect())}


def append(spark, url):
    import lazydelta.spark as lds

    return lds.write(spark.range(100, 500, 1, 4), url).to_dict()


def merge(spark, url):
    import lazydelta.spark as lds

    source = spark.range(50, 150, 1, 4).selectExpr("id", "-id AS v")
    into = lds.merge(spark, url, source, "t.id = s.id")
    merged = into.when_matched_update("*").when_not_matched_insert("*").execute()
    deleted = lds.delete(spark, url, "id % 10 = 0")
    return {"merged": merged.metrics, "deleted": deleted.metrics}


def merge_without_checkpoints(spark, url):
    directory = spark.conf.get("spark.checkpoint.dir")
    spark.conf.unset("spark.checkpoint.dir")
    try:
        return merge(spark, url)
    finally:
        spark.conf.set("spark.checkpoint.dir", directory)


def maintain(spark, url):
    import lazydelta.spark as lds

    return {
        "compacted": compact(spark, url)["metrics"],
        "clustered": cluster(spark, url)["metrics"],
        "vacuumed": lds.vacuum(spark, url, 0, "full", force=True, dry_run=False).to_dict(),
    }


def compact(spark, url):
    import lazydelta.spark as lds

    return lds.optimize(spark, url, target_size=8000, min_file_size=8000).to_dict()


def cluster(spark, url):
    import lazydelta.spark as lds

    return lds.optimize(spark, url, z_order=["x", "id"], target_size=1000).to_dict()


VERBS = {one.__name__: one for one in (
    replay, read, append, merge, merge_without_checkpoints, maintain, compact, cluster,
)}  # fmt: skip


def scenarios():
    """Return the verb of each scenario, its fault and the task that is struck."""
    found = {}
    for verb, task, partition in (
        ("replay", "read_checkpoint", 2), ("replay", "read_tail", 1), ("read", "_read_files", 2),
        ("append", "write_rows", 2), ("merge", "_write_numbered_rows", 0),
        ("merge_without_checkpoints", "_write_numbered_rows", 0), ("compact", "rewrite_bin", 1),
        ("cluster", "scatter", 0), ("cluster", "write", 2),
    ):  # fmt: skip
        found[f"{verb}-executor-{task}"] = (verb, "executor", task, partition)
    for verb in ("replay", "read", "append", "merge", "maintain"):
        found[f"{verb}-twice"] = (verb, "twice", None, 0)
    for verb, task in (
        ("read", "_read_files"), ("append", "write_rows"), ("merge", "write_vectors"),
        ("compact", "rewrite_bin"), ("cluster", "write"),
    ):  # fmt: skip
        found[f"{verb}-slow"] = (verb, "slow", task, 0)
    return found


SCENARIOS = scenarios()


def run(spark, place, name):
    """Run a scenario, and return what happened."""
    verb, kind, task, partition = SCENARIOS[name]
    marks = place / "marks" / name
    fault = {"kind": kind, "task": task, "partition": partition, "marks": str(marks)}
    started = time.monotonic()
    try:
        with striking(fault):
            found = VERBS[verb](spark, str(place / name))
    except Exception as error:  # noqa: BLE001 - the test compares it
        traceback.print_exc()
        found = {"error": str(error)}
    marked = sorted(mark.name for mark in marks.glob("*.*"))
    return {"found": found, "marks": marked, "seconds": round(time.monotonic() - started, 1)}


def main(master, place, *names):
    """Run scenarios in one session."""
    from lazydelta.scan.plan import tuning as splits
    from lazydelta.spark import local_session, tuning

    splits.MIN_SPLIT_BYTES = 1  # a small log in as many tasks as a large one
    tuning.CLUSTERED_IN_ONE_TASK = 0
    tuning.DELETED_IN_ONE_TASK = 4
    place = Path(place)
    conf = {"spark.master": master, "spark.checkpoint.dir": str(place / "checkpoints")}
    spark = local_session(conf=conf | CONF | REPLAY)
    for name in names or SCENARIOS:
        report = {"name": name, **run(spark, place, name)}
        sys.stdout.write(f"FOUND {json.dumps(report, default=str)}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
