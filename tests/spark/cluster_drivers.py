"""Drivers of one cluster that race, or are killed: run as programs.

`python -m tests.spark.cluster_drivers MASTER race TABLE NUMBER ROUNDS` commits to a table beside
other drivers, `... MASTER append|merge|compact TABLE` runs a verb, and `... MASTER stream SOURCE TABLE
CHECKPOINT` a stream to its end. `_LAZYDELTA_FAILPOINT` names where a driver is killed. Each prints a
line of JSON.
"""

from __future__ import annotations

import json
import sys
import warnings

from tests.spark import cluster_losses
from tests.spark.workers import PRELOADED

ROWS = 10
"""Rows of an append."""


def race(spark, url, number, rounds):
    """Append rows, update those of this driver, and add to the row of all; return what was done."""
    import lazydelta.spark as lds
    from lazydelta.errors import CommitConflictError

    number, rounds = int(number), int(rounds)
    added, conflicts = 0, 0
    for at in range(rounds):
        first = 1000 * number + ROWS * at
        lds.write(spark.range(first, first + ROWS, 1, 2).selectExpr("id", "0L AS v"), url)
        source = spark.range(first, first + ROWS, 1, 2).selectExpr("id", f"{at} AS v")
        lds.merge(spark, url, source, "t.id = s.id").when_matched_update("*").execute()
        try:
            lds.update(spark, url, {"v": "v + 1"}, "id = 0")
            added += 1
        except CommitConflictError:
            conflicts += 1
    return {"added": added, "conflicts": conflicts}


def append(spark, url):
    """Append rows, as an application transaction."""
    import lazydelta.spark as lds

    rows = spark.range(100, 200, 1, 4).selectExpr("id", "id AS v")
    return lds.write(rows, url, app_id="proof", app_version=1).to_dict()


def stream(spark, source, url, place):
    """Copy a table, one file a batch."""
    import lazydelta.spark as lds

    lds.register(spark)
    rows = spark.readStream.format("lazydelta").option("maxFilesPerTrigger", "1").load(source)
    writer = rows.writeStream.format("lazydelta").option("checkpointLocation", place)
    query = writer.trigger(availableNow=True).start(url)
    query.awaitTermination()
    return {"batches": len(query.recentProgress)}


PROGRAMS = {
    "race": race,
    "append": append,
    "merge": cluster_losses.merge,
    "compact": cluster_losses.compact,
    "stream": stream,
}


def main(master, program, *arguments):
    """Run a program in a session of the cluster."""
    from lazydelta.spark import local_session

    conf = {
        **PRELOADED,
        "spark.master": master,
        "spark.executor.memory": "512m",
        "spark.cores.max": "1",
    }
    spark = local_session(conf=conf, name=program)
    report = PROGRAMS[program](spark, *arguments)
    sys.stdout.write(f"FOUND {json.dumps(report, default=str)}\n")
    spark.stop()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
