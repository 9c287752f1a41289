"""Verbs and maintenance in any order: every version inside the retention keeps its rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import FilesNotFoundError
from tests.aged_tables import backdate, files_of
from tests.support import examples

KEPT = 3
"""Versions inside the retention: each is a day older than the next."""
PROPERTIES = {
    "delta.deletedFileRetentionDuration": f"interval {KEPT} days",
    "delta.logRetentionDuration": f"interval {KEPT} days",
    "delta.checkpointInterval": "100",
}
VERBS = ("append", "delete", "update", "overwrite")
MAINTENANCE = ("lite", "full", "cleanup", "checkpoint", "restore", "repair", "health")


def rows(number):
    values = ["x y", "50%", None]
    return pa.table({
        "id": pa.array([10 * number + i for i in range(6)]),
        "p": pa.array([values[i % 3] for i in range(6)], pa.string()),
    })  # fmt: skip


def change(table, verb, number):
    if verb == "append":
        table.write(rows(number))
    elif verb == "overwrite":
        table.write(rows(number), mode="overwrite")
    elif verb == "delete":
        table.delete(f"id % 4 = {number % 4}")
    else:
        table.update({"p": f"'new {number}'"}, where=f"id % 3 = {number % 3}")


def maintain(table, step):
    backdate(table, hours=24)
    before = files_of(table)
    if step in ("lite", "full"):
        result = table.vacuum(mode=step, dry_run=False, record=False)
        assert before - files_of(table) == set(result.paths)
        assert result.files_deleted == len(result.paths)
        return
    if step == "cleanup":
        table.cleanup_log()
    elif step == "checkpoint":
        table.checkpoint()
    elif step == "repair":
        assert table.repair(dry_run=False).files_missing == 0
    elif step == "health":
        assert table.health().severity != "critical"
    else:
        target = max(0, table.version - 1)
        try:
            table.restore(target)
        except FilesNotFoundError:
            raise AssertionError("a version inside the retention lacks files") from None
    assert files_of(table) == before


def content(table, version=None):
    return sorted(map(repr, table.snapshot(version).to_arrow().to_pylist()))


@examples(8, long=500)
@given(
    steps=st.lists(st.sampled_from(VERBS + MAINTENANCE), min_size=4, max_size=12),
    vectors=st.booleans(),
    partitioned=st.booleans(),
)
def test_retained_versions_keep_their_rows(tmp_path_factory, steps, vectors, partitioned):
    table = ld.Table.open(tmp_path_factory.mktemp("t"))
    properties = {**PROPERTIES, "delta.enableDeletionVectors": str(vectors).lower()}
    table.write(rows(0), partition_by=["p"] if partitioned else [], properties=properties)
    known = {0: content(table)}
    for number, step in enumerate(steps, 1):
        if step in VERBS:
            change(table, step, number)
        else:
            maintain(table, step)
        known.setdefault(table.version, content(table))
        for version in range(max(0, table.version - KEPT), table.version + 1):
            assert content(table, version) == known[version], (step, version)
