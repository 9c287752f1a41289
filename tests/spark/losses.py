"""A session whose processes are killed while they replay a log and read a table.

Run as a program, because the tests' own session must survive and never retries a task:
`python -m tests.spark.losses MASTER VICTIM TABLE` prints a line of JSON with the number of lost tasks
of each stage, and a digest of the rows that were read nevertheless.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

VICTIMS = {"executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon"}
"""A string in the command line of the processes to kill."""
TASKS = 8
_POLL_SECONDS, _POLLS = 0.02, 50


def digest(lines):
    """Return a digest of a multiset of lines: a repeated line changes it."""
    lines = sorted(lines)
    return f"{len(lines)} {hashlib.sha256(repr(lines).encode()).hexdigest()}"


class Killer(threading.Thread):
    """Kills a process in every stage that is well under way, until a task of it was lost."""

    def __init__(self, spark, group, victim):
        super().__init__(daemon=True)
        self._tracker = spark.sparkContext.statusTracker()
        self._group, self._word = group, VICTIMS[victim]
        self._over = threading.Event()

    def run(self):
        while not self._over.wait(_POLL_SECONDS):
            for stage in self._stages():
                if _is_well_under_way(stage):
                    self._kill_one()
                    self._wait_for_a_loss(stage.stageId)

    def lost_tasks(self):
        """Stop, and return how many tasks were lost in each stage."""
        self._over.set()
        self.join()
        return [stage.numFailedTasks for stage in self._stages()]

    def _stages(self):
        jobs = map(self._tracker.getJobInfo, self._tracker.getJobIdsForGroup(self._group))
        numbers = {number for job in jobs if job is not None for number in job.stageIds}
        return [info for info in map(self._tracker.getStageInfo, numbers) if info is not None]

    def _kill_one(self):
        # The newest one: the oldest Python worker is the daemon that forks the others.
        victims = [
            pid for pid, command in descendants(os.getpid()).items() if self._word in command
        ]
        if victims:
            os.kill(max(victims), signal.SIGKILL)

    def _wait_for_a_loss(self, number):
        """Give Spark time to notice the loss; an idle process may have been killed instead."""
        for _ in range(_POLLS):
            stage = self._tracker.getStageInfo(number)
            if stage is None or not _is_well_under_way(stage) or self._over.wait(_POLL_SECONDS):
                return


def _is_well_under_way(stage):
    """Return whether some tasks have ended, some have not, and none was lost."""
    some_done = 0 < stage.numCompletedTasks < stage.numTasks
    return some_done and stage.numActiveTasks > 0 and not stage.numFailedTasks


def descendants(root):
    """Return the descendants of a process, with their command lines."""
    children = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            command = entry.joinpath("cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
        children.setdefault(int(parent), {})[int(entry.name)] = command
    found, ahead = {}, [root]
    while ahead:
        below = children.get(ahead.pop(), {})
        found |= below
        ahead += below
    return found


def main(master, victim, table):
    """Replay the log and read the table while processes are killed, and print the result."""
    from lazydelta.scan.plan import tuning
    from lazydelta.spark import local_session, read

    tuning.MIN_SPLIT_BYTES = 1  # a small log in as many tasks as a large one
    spark = local_session(
        conf={
            "spark.master": master,
            "spark.executor.memory": "768m",
            "spark.task.maxFailures": "20",
            "spark.ui.liveUpdate.period": "0",
            "spark.lazydelta.distributedLogReplay.fileThreshold": "0",
            "spark.lazydelta.distributedLogReplay.numPartitions": str(TASKS),
        }
    )
    killer = Killer(spark, "losses", victim)
    spark.sparkContext.setJobGroup("losses", "a read with losses")
    killer.start()
    rows = [tuple(row) for row in read(spark, table, path="arrow").collect()]
    found = {"lost": killer.lost_tasks(), "rows": digest(rows)}
    sys.stdout.write("FOUND " + json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
