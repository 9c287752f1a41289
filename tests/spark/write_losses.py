"""Sessions in which writers fail: run as a program, because each needs its own settings.

`python -m tests.spark.write_losses retries TABLE` writes a table with tasks that fail, or are killed,
after they wrote their files. `... stream SOURCE TABLE CHECKPOINT` runs a stream until it ends or is
killed: `_LAZYDELTA_FAILPOINT` names where the committing process is killed. Both print one line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings

RAISES, KILLED = 0, 1
"""Which tasks are lost, and how, at their first attempt."""


def lost_after_writing(planned, batches):
    """Write as tasks do, and lose the result of the first attempt."""
    from pyspark import TaskContext

    from lazydelta.spark.write_tasks import write_rows

    reports = list(write_rows(planned, batches))
    context = TaskContext.get()
    if context.attemptNumber() == 0:
        if context.partitionId() == RAISES:
            raise RuntimeError("lost after its files were written")
        if context.partitionId() == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
    yield from reports


def retries(url):
    import lazydelta.spark as executors

    spark = executors.local_session(conf={"spark.master": "local[2,4]"})
    assert spark.sparkContext.master == "local[2,4]"
    sys.modules["lazydelta.spark.write"].write_rows = lost_after_writing
    result = executors.write(spark.range(0, 400, 1, 4), url)
    spark.stop()
    return result.to_dict()


def stream(source, url, place):
    import lazydelta.spark as executors

    spark = executors.local_session(cores=2)
    executors.register(spark)
    rows = spark.readStream.format("lazydelta").load(source)
    writer = rows.writeStream.format("lazydelta").option("checkpointLocation", place)
    query = writer.trigger(availableNow=True).start(url)
    error = None
    try:
        query.awaitTermination()
    except Exception as raised:  # noqa: BLE001 - reported to the test
        error = str(raised)
    spark.stop()
    return {"error": error}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report = {"retries": retries, "stream": stream}[sys.argv[1]](*sys.argv[2:])
    sys.stdout.write(f"FOUND {json.dumps(report)}\n")
