"""The parts of a VACUUM in several processes: candidates without retained files are its files."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.operations.maintenance.distributed import (
    PartitionScope,
    RetainedVersions,
    VacuumParts,
    listing_ranges,
)
from lazydelta.protocol.schemas import ADD
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds

PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


@pytest.fixture
def table(tmp_path):
    """A table whose first half of versions is expired."""
    for start in range(0, 60, 10):
        rows = {"id": [*range(start, start + 10)], "p": ["ab"[n % 2] for n in range(10)]}
        ld.write(tmp_path, rows, partition_by=["p"], properties={} if start else PROPERTIES)
    table = ld.Table.open(tmp_path)
    table.delete("id % 10 = 3")
    table.update({"id": "id + 1000"}, "id % 10 = 5")
    table.checkpoint()
    table.delete("id < 30")
    table.optimize()
    (tmp_path / "p=a" / "orphan").write_bytes(b"x")
    return table


def split(items, count):
    step = max(1, -(-len(items) // count))
    return [items[at : at + step] for at in range(0, len(items), step)]


@pytest.mark.parametrize("where", [None, "p = 'a'"])
@pytest.mark.parametrize("mode", ["lite", "full"])
def test_parts_find_the_files_of_one_process(table, mode, where):
    snapshot = table.snapshot()
    time.sleep(0.01)
    cutoff = time.time_ns() // 10**6
    versions = RetainedVersions.at(snapshot, cutoff)
    bare = RetainedVersions(snapshot=snapshot, cutoff_ms=cutoff, oldest=versions.oldest, commits=())
    parts = VacuumParts(versions=bare, scope=PartitionScope(snapshot, where))
    schema = pa.schema([ADD.field("path"), ADD.field("deletionVector")])
    arrays = [*parts.live(live_adds(snapshot, schema, Pruner())), *parts.removed_before()]
    for commits in split(versions.commits_with_removes, 3):
        arrays += parts.removed(commits)
    for commits in split(versions.later_commits, 3):
        arrays += parts.changed(commits)
    retained = {path for paths in arrays for path in paths.to_pylist()}
    if mode == "lite":
        runs = split([c for c in versions.commits if c.version <= versions.oldest], 4)
        batches = [batch for run in runs for batch in parts.named(run)]
    else:
        ranges = listing_ranges(["p=a/", "p=b/"], 4)
        batches = [batch for ends in ranges for batch in parts.listed(*ends)]
    found = {path for batch in batches for path in batch.column("path").to_pylist()} - retained
    expected = table.vacuum(0, mode, force=True, where=where)
    assert found == set(expected.paths)
    assert found
