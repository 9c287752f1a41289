"""Tasks and committers of Spark are lost at the worst moment: no row is lost or duplicated.

Separate programs do the work (`tests.spark.write_losses`), to protect the session of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lazydelta as ld

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # each starts a session


def run(*args, failpoint=None):
    armed = {} if failpoint is None else {"_LAZYDELTA_FAILPOINT": failpoint}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.write_losses", *map(str, args)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
        env={**os.environ, **armed},
    )  # fmt: skip
    reports = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert reports, done.stdout + done.stderr[-5000:]
    return json.loads(reports[0].removeprefix("FOUND "))


def ids_of(url):
    return sorted(ld.Table.open(url).scan().to_arrow().column("id").to_pylist())


def test_tasks_that_are_lost_after_they_wrote_their_files(spark, tmp_path):
    report = run("retries", tmp_path)
    assert (report["version"], report["rows"], report["files_added"]) == (0, 400, 4)
    assert ids_of(tmp_path) == [*range(400)]
    assert len(list(ld.Table.open(tmp_path).scan().files())) == 4
    assert len(list(tmp_path.glob("*.parquet"))) == 6, "two attempts should have left a file each"


@pytest.mark.parametrize(
    ("failpoint", "committed"),
    [("commit-acknowledged:kill", True), ("commit-prepared:kill", False)],
)
def test_a_stream_whose_committer_is_killed(spark, tmp_path, failpoint, committed):
    source, url, place = tmp_path / "source", tmp_path / "t", tmp_path / "checkpoint"
    ld.write(source, {"id": [1, 2, 3]})
    ld.write(url, {"id": [0]})
    report = run("stream", source, url, place, failpoint=failpoint)
    assert report["error"] is not None
    assert ids_of(url) == ([0, 1, 2, 3] if committed else [0])
    assert run("stream", source, url, place) == {"error": None}
    assert ids_of(url) == [0, 1, 2, 3]
