"""A session in which tasks of maintenance are lost after they did their work.

Run as a program, because it needs its own settings: `python -m tests.spark.maintenance_losses TABLE
[MASTER FLAG]` compacts, clusters and vacuums the table, and prints one line of JSON. Without a
master, first attempts of tasks raise or are killed; with one, the first task that writes a range
kills its executor, and creates the file FLAG.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings

from tests.spark import dml_executor_losses

LOST = ("rewrite_bin", "scatter", "write_range", "delete_files")


def losing(flag, name, function, *arguments):
    """Run a task, and lose the result of its first attempt, or its executor."""
    from pyspark import TaskContext

    if flag is not None:
        if name == "write_range":
            dml_executor_losses.lose_executor(flag)
        yield from function(*arguments)
        return
    results = list(function(*arguments))
    context = TaskContext.get()
    if name in LOST and context.attemptNumber() == 0:
        if context.partitionId() == 0:
            raise RuntimeError("lost after its work was done")
        if context.partitionId() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    yield from results


def report(url, master="local[2,4]", flag=None):
    """Maintain the table with tasks that are lost."""
    from pyspark import cloudpickle

    import lazydelta.spark as executors
    from lazydelta.spark import jobs, tuning

    cloudpickle.register_pickle_by_value(dml_executor_losses)

    tuning.CLUSTERED_IN_ONE_TASK = 0
    tuning.DELETED_IN_ONE_TASK = 4
    conf = {"spark.master": master, "spark.executor.memory": "768m", "spark.task.maxFailures": "8"}
    spark = executors.local_session(conf=conf)
    run = jobs._run
    jobs._run = lambda function, *rest: losing(
        flag, task_name(function, rest), run, function, *rest
    )
    found = {
        "compacted": executors.optimize(spark, url, target_size=8000, min_file_size=8000),
        "clustered": executors.optimize(spark, url, z_order=["x", "id"], target_size=1000),
        "vacuumed": executors.vacuum(spark, url, 0, "full", force=True, dry_run=False),
    }
    spark.stop()
    return {name: result.to_dict() for name, result in found.items()}


def task_name(function, arguments):
    """The name of a task; splits are read by one function, with the task as an argument."""
    name = function.__name__
    if name == "_read_splits":
        name = arguments[1].__name__
    return {"write": "write_range", "delete": "delete_files"}.get(name, name)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(f"FOUND {json.dumps(report(*sys.argv[1:]), default=str)}\n")
