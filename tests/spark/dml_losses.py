"""A session in which tasks of a MERGE and a DELETE are lost after they wrote their files.

Run as a program, because it needs its own settings: `python -m tests.spark.dml_losses TABLE` merges
into the table, deletes from it, and prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings

LOST = ("write_rows", "write_vectors", "copy_rows", "write_matched_changes")
"""Tasks that are lost: the first attempt of partition 0 raises, that of partition 1 is killed."""


def losing(name, function, *arguments):
    """Run a task, and lose the result of its first attempt."""
    from pyspark import TaskContext

    results = list(function(*arguments))
    context = TaskContext.get()
    if name in LOST and context.attemptNumber() == 0:
        if context.partitionId() == 0:
            raise RuntimeError("lost after its files were written")
        if context.partitionId() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    yield from results


def report(url):
    """Change the table with tasks that are lost."""
    import lazydelta.spark as executors
    from lazydelta.spark import jobs

    spark = executors.local_session(conf={"spark.master": "local[2,4]"})
    run = jobs._run
    jobs._run = lambda function, *rest: losing(function.__name__, run, function, *rest)
    source = spark.range(50, 150, 1, 3).selectExpr("id", "-id AS v")
    merge = executors.merge(spark, url, source, "t.id = s.id")
    merged = merge.when_matched_update("*").when_not_matched_insert("*").execute()
    deleted = executors.delete(spark, url, "id % 10 = 0")
    spark.stop()
    return {"merged": merged.to_dict(), "deleted": deleted.to_dict()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(f"FOUND {json.dumps(report(sys.argv[1]))}\n")
