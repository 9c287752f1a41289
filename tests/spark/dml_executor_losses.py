"""A cluster of two executors, one of which is killed while a MERGE writes its rows.

Run as a program: `python -m tests.spark.dml_executor_losses TABLE FLAG [CHECKPOINTS]` prints one
line of JSON. The first task that writes rows kills its executor, and creates the file FLAG.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

_EXECUTOR = "CoarseGrainedExecutorBackend"


def lose_executor(flag):
    """Kill the executor of this Python worker, once."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    process = os.getpid()
    while process > 1:
        if _EXECUTOR in Path(f"/proc/{process}/cmdline").read_text():
            os.kill(process, signal.SIGKILL)
            return
        stat = Path(f"/proc/{process}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])


def losing(flag, name, function, *arguments):
    """Run a task; lose the executor of the first one that writes rows."""
    if name == "write_rows":
        lose_executor(flag)
    yield from function(*arguments)


def report(url, flag, checkpoints=None):
    """Merge into the table while an executor is lost."""
    import lazydelta.spark as executors
    from lazydelta.spark import jobs

    conf = {
        "spark.master": "local-cluster[2,1,768]",
        "spark.executor.memory": "768m",
        "spark.task.maxFailures": "8",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors have rows
    }
    if checkpoints is not None:
        conf["spark.checkpoint.dir"] = checkpoints
    spark = executors.local_session(conf=conf)
    run = jobs._run
    jobs._run = lambda function, *rest: losing(flag, function.__name__, run, function, *rest)
    source = spark.range(50, 150, 1, 4).selectExpr("id", "-id AS v")
    merge = executors.merge(spark, url, source, "t.id = s.id")
    try:
        done = merge.when_matched_update("*").when_not_matched_insert("*").execute()
    except Exception as error:  # noqa: BLE001 - the test compares it
        return {"error": str(error)}
    finally:
        spark.stop()
    return {"metrics": done.metrics}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(f"FOUND {json.dumps(report(*sys.argv[1:]))}\n")
