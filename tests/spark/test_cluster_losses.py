"""Executors, tasks and slow attempts of a cluster are lost: no row is, and none is doubled.

A separate program runs the verbs in one session (`tests.spark.cluster_losses`), on a cluster of
two executor processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lazydelta as ld
from tests.spark.cluster_losses import SCENARIOS
from tests.spark.losses import digest
from tests.spark.lost_tables import create_read_table
from tests.spark.maintained_tables import create, rows_of
from tests.spark.standalone import standalone_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # it starts a cluster

VECTORS = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
MAINTENANCE = ("maintain", "compact", "cluster")


def create_target(url, properties):
    for start in (0, 50):
        ids = [*range(start, start + 50)]
        ld.write(url, {"id": ids, "v": ids}, properties={} if start else properties)


def create_table(url, verb):
    if verb in ("replay", "read"):
        create_read_table(url)
    elif verb == "append":
        ld.write(url, {"id": [*range(100)]})
    elif verb in MAINTENANCE:
        create(url)
    else:
        create_target(url, VECTORS)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster-losses")


@pytest.fixture(scope="module")
def reports(place):
    """What happened in each scenario."""
    for name, (verb, *_) in SCENARIOS.items():
        create_table(place / name, verb)
    with standalone_cluster(place / "cluster") as master:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster_losses", master, str(place)],
            capture_output=True, text=True, check=False,
            cwd=Path(__file__).parents[2], env=os.environ, timeout=1000,
        )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert len(found) == len(SCENARIOS), done.stdout + done.stderr[-5000:]
    read = [json.loads(line.removeprefix("FOUND ")) for line in found]
    return {one["name"]: one for one in read}


@pytest.fixture
def report(reports, scenario):
    """What the verb returned, where the fault struck as it should."""
    kind = SCENARIOS[scenario][1]
    marks = [tuple(mark.split(".")) for mark in reports[scenario]["marks"]]
    counts = Counter(what for what, *_ in marks)
    started = {(task, stage, at, attempt) for what, task, stage, at, attempt in marks
        if what == "started"}  # fmt: skip
    if kind == "executor":
        assert counts["killed"] == 1
    elif kind == "twice":
        assert counts["lost"] >= 2
        twice = {tuple(where[:-1]) for what, *where in marks if what == "lost" and where[-1] == "1"}
        assert twice
        assert {(*where, "2") for where in twice} <= started
    else:
        (slow,) = (where for what, *where in marks if what == "slow")
        assert (*slow[:-1], "1") in started, "no second attempt ran beside the slow one"
    return reports[scenario]["found"]


def scenarios_of(*verbs):
    return pytest.mark.parametrize(
        "scenario", [name for name, (verb, *_) in SCENARIOS.items() if verb in verbs]
    )


def check_files(url):
    """Every file of every version exists; return how many files none of them references."""
    table = ld.Table.open(url)
    named = {
        file.path
        for version in range(table.version + 1)
        for file in table.snapshot(version).scan().files()
    }
    found = {str(path.relative_to(url)) for path in url.glob("*.parquet")}
    assert named <= found
    return len(found - named)


@scenarios_of("replay", "read")
def test_reads(place, report, scenario):
    table = ld.Table.open(place / scenario)
    if SCENARIOS[scenario][0] == "replay":
        expected = digest(file.path for file in table.scan().files())
    else:
        expected = digest(tuple(row.values()) for row in table.to_arrow().to_pylist())
    assert report == {"rows": expected}


@scenarios_of("append")
def test_an_append(place, report, scenario):
    url = place / scenario
    assert (report["version"], report["rows"], report["files_added"]) == (1, 400, 4)
    assert sorted(ld.Table.open(url).to_arrow().column("id").to_pylist()) == [*range(500)]
    assert check_files(url) >= 1, "the lost attempt wrote its file first"


@scenarios_of("merge")
def test_a_merge_and_a_delete(place, report, scenario):
    url = place / scenario
    assert report["merged"]["numTargetRowsUpdated"] == 50
    assert report["merged"]["numTargetRowsInserted"] == 50
    assert report["deleted"]["numDeletedRows"] == 15
    table = ld.Table.open(url)
    assert table.version == 3
    found = sorted((row["id"], row["v"]) for row in table.to_arrow().to_pylist())
    assert found == [(n, n if n < 50 else -n) for n in range(150) if n % 10]
    check_files(url)
    changes = table.changes(starting_version=2, ending_version=2).to_arrow()
    assert Counter(changes.column("_change_type").to_pylist()) == {
        "update_preimage": 50, "update_postimage": 50, "insert": 50,
    }  # fmt: skip


@scenarios_of("merge_without_checkpoints")
def test_a_merge_that_cannot_be_repeated_commits_nothing(place, report, scenario):
    assert "Checkpoint block" in report["error"]
    assert ld.Table.open(place / scenario).version == 1


@scenarios_of(*MAINTENANCE)
def test_maintenance(place, report, scenario, tmp_path):
    url = place / scenario
    create(tmp_path)
    assert rows_of(url) == rows_of(tmp_path)
    assert ld.Table.open(url).check().checksum.status == "matches"
    if "vacuumed" not in report:
        check_files(url)
        assert report["metrics"]["numRemovedFiles"] == 6
        return
    assert report["compacted"]["numRemovedFiles"] == 6
    assert report["clustered"]["numAddedFiles"] > 2
    assert {path.name for path in url.glob("*.parquet")} == {
        file.path for file in ld.Table.open(url).scan().files()
    }
    vacuumed = report["vacuumed"]
    assert vacuumed["files_deleted"] == vacuumed["files_to_delete"]
    assert not vacuumed["files_failed"]
    replaced = sum(report[one]["numRemovedFiles"] for one in ("compacted", "clustered"))
    assert vacuumed["files_deleted"] > replaced + 1, "no attempt left a file"
