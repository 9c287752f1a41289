"""Two verbs on the same files, in every order of their listings and commits.

Every outcome is the serial order of the log, or a conflict of the second writer. Which of both it is
depends only on the rows: writers that mark different rows of one file both succeed.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import pyarrow as pa
import pytest

from lazydelta import Config
from lazydelta.errors import CommitConflictError
from lazydelta.operations import WriteRequest, write_rows
from lazydelta.operations.dml import DmlRequest, delete_rows, update_rows
from lazydelta.scan import Scan
from lazydelta.snapshot import load_snapshot
from lazydelta.table import Table
from tests.support import memory_store
from tests.unit.transaction.schedule import Request, every_order

CONFIG = Config(
    write_checksums=False,
    write_checkpoints=False,
    write_compactions=False,
    retry_base_seconds=0,
    retry_cap_seconds=0,
    max_deleted_rows_ratio=1.0,
)
VECTORS = {"delta.enableDeletionVectors": "true"}
FILES = ([1, 2, 3, 4], [5, 6, 7, 8])
NEW = [2, 9]


def _delete(predicate):
    return lambda store: delete_rows(store, CONFIG, DmlRequest(where=predicate))


def _update(predicate):
    request = DmlRequest(where=predicate)
    return lambda store: update_rows(store, CONFIG, {"v": "v * 2 + 1"}, request)


def _append(store):
    return write_rows(store, CONFIG, _rows(NEW), WriteRequest(mode="append"))


def _replace(store):
    request = WriteRequest(mode="overwrite", where="id = 5")
    return write_rows(store, CONFIG, _rows([5]), request)


def _merge(store):
    merge = Table(store, CONFIG).merge(_rows([3, 10], 7), "t.id = s.id")
    return merge.when_matched_update("*").when_not_matched_insert("*").execute()


def _rows(ids, value=0):
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "v": pa.array([value] * len(ids), pa.int64())}
    )


def _without(*ids):
    return lambda rows: [row for row in rows if row[0] not in ids]


def _doubled(*ids):
    return lambda rows: [(key, value * 2 + 1 if key in ids else value) for key, value in rows]


VERBS = {
    # name: (call, the rows after it)
    "append": (_append, lambda rows: [*rows, *((key, 0) for key in NEW)]),
    "delete-1": (_delete("id = 1"), _without(1)),
    "delete-2-6": (_delete("id % 4 = 2"), _without(2, 6, 10)),
    "delete-file": (_delete("id <= 4"), _without(1, 2, 3, 4)),
    "update-2": (_update("id = 2"), _doubled(2)),
    "update-3-9": (_update("id IN (3, 9)"), _doubled(3, 9)),
    "merge-3-10": (_merge, lambda rows: [*_without(3, 10)(rows), (3, 7), (10, 7)]),
    "replace-5": (_replace, lambda rows: [*_without(5)(rows), (5, 0)]),
}
# Pairs that touch the same row of a file, or a file that one of them removes or rewrites.
CONFLICTS = {
    ("delete-1", "delete-1"),
    ("delete-1", "delete-file"),
    ("delete-2-6", "delete-2-6"),
    ("delete-2-6", "delete-file"),
    ("delete-2-6", "update-2"),
    ("delete-2-6", "replace-5"),
    ("delete-file", "delete-file"),
    ("delete-file", "update-2"),
    ("delete-file", "update-3-9"),
    ("delete-file", "merge-3-10"),
    ("update-2", "update-2"),
    ("update-3-9", "update-3-9"),
    ("update-3-9", "merge-3-10"),
    ("merge-3-10", "merge-3-10"),
    ("replace-5", "replace-5"),
}


def make_table():
    store = memory_store()
    for ids in FILES:
        request = WriteRequest(mode="append", properties=VECTORS)
        write_rows(store, CONFIG, _rows(ids), request)
    return store


class Played:
    """Two verbs in one interleaving."""

    def __init__(self, names, schedule):
        self.store = make_table()
        self.outcomes = {}
        self._names, self._schedule = names, schedule
        schedule.run(self._work, self._work)

    def _work(self, number, observer):
        store = self._schedule.store(self.store, number, reads=False)
        try:
            self.outcomes[number] = VERBS[self._names[number]][0](store)
        except CommitConflictError as error:
            self.outcomes[number] = error

    @property
    def first(self):
        """The writer of the first commit, and whether the other had listed the log before it."""
        requests = self._schedule.requests
        commit = f"_delta_log/{len(FILES):020}.json"
        put = next(r for r in requests if (r.kind, r.path) == ("put", commit))
        listed = Request(1 - put.writer, "list", "_delta_log")
        return put.writer, requests.index(listed) < requests.index(put)

    def rows(self):
        scan = Scan(load_snapshot(self.store, CONFIG))
        return sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())


PAIRS = list(combinations_with_replacement(VERBS, 2))


@pytest.mark.sample(5)
@pytest.mark.parametrize("names", PAIRS, ids="-and-".join)
def test_every_order_of_two_verbs(names):
    kinds = set()
    for schedule in every_order():
        played = Played(names, schedule)
        first, raced = played.first
        order = [names[first], names[1 - first]]
        second = played.outcomes[1 - first]
        is_conflict = raced and _conflicts(*order)
        assert isinstance(second, CommitConflictError) == is_conflict, schedule.requests
        rows = [(key, 0) for ids in FILES for key in ids]
        for name in order[: 1 if is_conflict else 2]:
            rows = VERBS[name][1](rows)
        assert played.rows() == sorted(rows), schedule.requests
        kinds.add((first, raced))
    assert {raced for _, raced in kinds} == {False, True}
    assert {first for first, _ in kinds} == {0, 1}


def _conflicts(winner, mine):
    if mine == "append":
        return False
    if mine == "replace-5":  # an overwrite is not adapted to files that may match
        return winner in ("append", "delete-2-6", "merge-3-10", "replace-5")
    return tuple(sorted((winner, mine), key=list(VERBS).index)) in CONFLICTS
