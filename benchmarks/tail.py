"""The commits after the checkpoint of a synthetic table, and the live files after them.

Each commit adds new files, removes some of the checkpoint, adds some again unchanged, brings
back some that the commit before it removed, and gives some a new deletion vector.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.actions import add_column, commit_lines, remove_column
from benchmarks.columns import FileColumns

if TYPE_CHECKING:
    from benchmarks.columns import Integers
    from benchmarks.spec import TableSpec

__all__ = ["TailCommit", "commit_json", "live_indices", "tail_commits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCommit:
    """The changes of one commit, as file numbers."""

    ordinal: int
    fresh: Integers
    removed: Integers
    returned: Integers
    readded: Integers
    swapped: Integers


def _victims(spec: TableSpec, ordinal: int) -> list[Integers]:
    """Return files of the checkpoint to remove, re-add, swap; no file is ever drawn twice."""
    counts = spec.touched_per_commit
    each = sum(counts)
    stride = next(n for n in range(7919, 7919 + 200) if math.gcd(n, spec.files) == 1)
    ranks = np.arange(ordinal * each, (ordinal + 1) * each, dtype=np.int64)
    chosen = (ranks * stride + spec.seed) % spec.files
    return np.split(chosen, np.cumsum(counts)[:-1])


def tail_commits(spec: TableSpec) -> list[TailCommit]:
    """Return the commits after the checkpoint, oldest first."""
    commits: list[TailCommit] = []
    start = spec.files + spec.removes
    for ordinal in range(spec.tail):
        removed, readded, swapped = _victims(spec, ordinal)
        before = commits[-1].removed if commits else removed[:0]
        fresh = np.arange(spec.tail_adds, dtype=np.int64) + start + ordinal * spec.tail_adds
        commits.append(
            TailCommit(
                ordinal=ordinal,
                fresh=fresh,
                removed=removed,
                returned=before[: len(before) // 4],
                readded=readded,
                swapped=swapped,
            )
        )
    return commits


def live_indices(spec: TableSpec) -> Integers:
    """Return the numbers of the live files of the newest version, ascending."""
    live = np.zeros(spec.indices, bool)
    live[: spec.files] = True
    for commit in tail_commits(spec):
        live[commit.removed] = False
        live[commit.returned] = True
        live[commit.fresh] = True
    return np.flatnonzero(live)


def commit_json(spec: TableSpec, commit: TailCommit) -> str:
    """Return the content of a commit file."""
    lines = [json.dumps({"commitInfo": {"operation": "MERGE", "engineInfo": "benchmarks"}})]
    adding = np.concatenate([commit.fresh, commit.returned])
    lines += commit_lines("add", add_column(FileColumns(spec, adding), data_change=True))
    lines += commit_lines("add", add_column(FileColumns(spec, commit.readded)))
    lines += commit_lines("remove", remove_column(FileColumns(spec, commit.removed)))
    if len(commit.swapped):
        files = FileColumns(spec, commit.swapped)
        all_of_them = np.ones(len(commit.swapped), bool)
        swapped = add_column(
            files, has_vector=all_of_them, salt=2 * commit.ordinal + 2, data_change=True
        )
        lines += commit_lines("remove", remove_column(files)) + commit_lines("add", swapped)
    return "\n".join(lines) + "\n"
