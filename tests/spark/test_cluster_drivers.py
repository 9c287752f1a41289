"""Drivers of a cluster race for versions, or are killed: no row is lost, and none is doubled.

Each driver is a program (`tests.spark.cluster_drivers`) with executors of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import lazydelta as ld
from tests.spark.losses import descendants
from tests.spark.maintained_tables import create, rows_of
from tests.spark.standalone import standalone_cluster
from tests.spark.test_cluster_losses import check_files, create_target

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # it starts a cluster

DRIVERS, ROUNDS = 2, 5
KILLS, BATCHES, BATCH_ROWS = 20, 60, 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


class Driver:
    """A driver process, in a process group of its own."""

    def __init__(self, master, program, *arguments, failpoint=None):
        armed = {} if failpoint is None else {"_LAZYDELTA_FAILPOINT": failpoint}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster_drivers", master, program,
             *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            cwd=Path(__file__).parents[2], env={**os.environ, **armed},
        )  # fmt: skip

    def finish(self):
        """Return the report; None if the driver was killed."""
        output, errors = self._process.communicate(timeout=600)
        reports = [line for line in output.splitlines() if line.startswith("FOUND ")]
        if self._process.returncode == -signal.SIGKILL:
            return None
        assert reports, output + errors[-5000:]
        return json.loads(reports[0].removeprefix("FOUND "))

    @property
    def has_ended(self):
        return self._process.poll() is not None

    def kill(self, *, only_java):
        """Kill the driver with all that it started; or its JVM, whose Python workers go on."""
        if only_java:
            for pid, command in descendants(self._process.pid).items():
                if "SparkSubmit" in command:
                    os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=60)


def test_drivers_race_for_versions(cluster, tmp_path):
    ld.write(tmp_path, {"id": [0], "v": [0]}, properties={"delta.enableDeletionVectors": "true"})
    drivers = [
        Driver(cluster, "race", tmp_path, number, ROUNDS) for number in range(1, DRIVERS + 1)
    ]
    reports = [driver.finish() for driver in drivers]
    table = ld.Table.open(tmp_path)
    added = sum(report["added"] for report in reports)
    assert added + sum(report["conflicts"] for report in reports) == DRIVERS * ROUNDS
    assert table.version == 2 * DRIVERS * ROUNDS + added
    expected = {1000 * number + at: at // 10 for number in (1, 2) for at in range(10 * ROUNDS)}
    rows = table.to_arrow().to_pylist()
    assert len(rows) == len(expected) + 1
    assert {row["id"]: row["v"] for row in rows} == expected | {0: added}
    engines = Counter(entry.operation for entry in table.history())
    assert engines == {"WRITE": 2 * ROUNDS + 1, "MERGE": 2 * ROUNDS, "UPDATE": added}
    check_files(tmp_path)


@pytest.mark.parametrize("program", ["append", "merge", "compact"])
def test_a_driver_killed_before_its_commit_leaves_only_files(cluster, tmp_path, program):
    if program == "compact":
        create(tmp_path)
    else:
        create_target(tmp_path, {"delta.enableDeletionVectors": "true"})
    table = ld.Table.open(tmp_path)
    before, version = rows_of(tmp_path), table.version
    killed = Driver(cluster, program, tmp_path, failpoint="commit-prepared:kill")
    assert killed.finish() is None
    assert table.snapshot().version == version
    assert rows_of(tmp_path) == before
    assert check_files(tmp_path) >= 1, "it was killed before it wrote files"
    Driver(cluster, program, tmp_path).finish()
    after = rows_of(tmp_path)
    if program == "append":
        assert sorted(row["id"] for row in after) == [*range(200)]
    elif program == "merge":
        expected = {n: n if n < 50 else -n for n in range(150) if n % 10}
        assert [(row["id"], row["v"]) for row in after] == sorted(expected.items())
    else:
        assert after == before
    orphans = check_files(tmp_path)
    removed = table.vacuum(0, "full", force=True, dry_run=False).files_deleted
    assert removed >= orphans
    assert rows_of(tmp_path) == after


def test_a_driver_killed_after_its_commit_is_not_applied_again(cluster, tmp_path):
    create_target(tmp_path, {})
    killed = Driver(cluster, "append", tmp_path, failpoint="commit-acknowledged:kill")
    assert killed.finish() is None
    assert Driver(cluster, "append", tmp_path).finish()["already_applied"]
    ids = ld.Table.open(tmp_path).to_arrow().column("id").to_pylist()
    assert sorted(ids) == [*range(200)]


# --- a stream that is killed ----------------------------------------------------------------------


class Moments:
    """What a stream has done so far, by the files that it has written."""

    def __init__(self, url, place):
        self._url, self._place = url, place

    def reached(self):
        """Return how often each moment was reached: a batch is planned, written, committed, done."""
        return {
            "planned": _count(self._place / "offsets", "[0-9]*"),
            "written": _count(self._url, "*.parquet"),
            "committed": _count(self._url / "_delta_log", "*.json"),
            "done": _count(self._place / "commits", "[0-9]*"),
        }


def _count(directory, names):
    return sum(1 for _ in directory.glob(names))


def kill_at(driver, moments, moment, *, only_java):
    """Kill a stream when it reaches a moment of its second batch; whether it still ran."""
    start = moments.reached()[moment]
    while not driver.has_ended:
        if moments.reached()[moment] >= start + 2:
            driver.kill(only_java=only_java)
            return True
        time.sleep(0.001)
    return False


def test_a_stream_that_is_killed_copies_each_row_once(cluster, tmp_path):
    source, url, place = (tmp_path / name for name in ("source", "table", "checkpoint"))
    for at in range(BATCHES):
        ld.write(source, {"id": [*range(at * BATCH_ROWS, (at + 1) * BATCH_ROWS)]})
    ld.write(url, {"id": [-1]})
    moments, kills, versions = Moments(url, place), Counter(), []
    for at in range(KILLS):
        moment = ("planned", "written", "committed", "done")[at % 4]
        driver = Driver(cluster, "stream", source, url, place)
        only_java = at // 4 % 2 == 1
        kills[moment] += kill_at(driver, moments, moment, only_java=only_java)
        versions.append(ld.Table.open(url).version)
    assert kills == dict.fromkeys(("planned", "written", "committed", "done"), KILLS // 4)
    assert Driver(cluster, "stream", source, url, place).finish()["batches"] > 0
    table = ld.Table.open(url)
    assert sorted(table.to_arrow().column("id").to_pylist()) == [*range(-1, BATCHES * BATCH_ROWS)]
    assert table.version == BATCHES, "a batch is one commit"
    assert versions == sorted(versions)
    orphans = check_files(url)
    vacuumed = table.vacuum(0, "full", force=True, dry_run=False)
    assert vacuumed.files_deleted == orphans
