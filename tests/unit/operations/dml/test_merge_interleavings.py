"""MERGE and another verb on the same files, in every order of their listings and commits.

Every outcome is the serial order of the log, or a conflict of the second writer.
"""

from __future__ import annotations

import pytest

from lazydelta.errors import CommitConflictError
from lazydelta.operations.dml.merge import MergeClause, MergeRequest
from lazydelta.operations.dml.merge.merge import merge_rows
from lazydelta.writer import as_source
from tests.unit.operations.dml import test_interleavings as verbs
from tests.unit.transaction.schedule import every_order

SET = {"v": "s.v"}


def merge(ids, *clauses):
    request = MergeRequest(on="t.id = s.id", clauses=clauses)
    rows = verbs._rows(ids, 100)
    return lambda store: merge_rows(store, verbs.CONFIG, as_source(rows), request)


def clause(kind, action, where=None):
    assigned = {} if action == "delete" else SET if action == "update" else "*"
    return MergeClause(kind=kind, action=action, where=where, assigned=assigned)


def merged(ids, changes=lambda _: True):
    """Return rows after an upsert that changes the matching rows of which a condition holds."""

    def after(rows):
        kept = [(k, 100 if k in ids and changes((k, v)) else v) for k, v in rows]
        return [*kept, *((key, 100) for key in ids if key not in dict(rows))]

    return after


INSERT = clause("not_matched", "insert")
MERGES = {
    "upsert-2-9": (merge([2, 9], clause("matched", "update"), INSERT), merged([2, 9])),
    "upsert-some": (
        merge([1, 6, 12], clause("matched", "update", "t.v > 0 OR t.id = 6"), INSERT),
        merged([1, 6, 12], lambda row: row[1] > 0 or row[0] == 6),
    ),
    "insert-3-11": (merge([3, 11], INSERT), merged([3, 11], lambda _: False)),
    "sync-7": (
        merge([7], clause("not_matched_by_source", "delete", "t.id > 6"), INSERT),
        lambda rows: [
            row for row in merged([7], lambda _: False)(rows) if row[0] <= 6 or row[0] == 7
        ],
    ),
}
PAIRS = [(first, second) for first in MERGES for second in [first, *verbs.VERBS]]


@pytest.mark.sample(5)
@pytest.mark.parametrize("names", PAIRS, ids="-and-".join)
def test_every_order_is_serial_or_a_conflict(monkeypatch, names):
    monkeypatch.setattr(verbs, "VERBS", {**verbs.VERBS, **MERGES})
    outcomes = set()
    for schedule in every_order():
        played = verbs.Played(names, schedule)
        first, _ = played.first
        is_conflict = isinstance(played.outcomes[1 - first], CommitConflictError)
        outcomes.add(is_conflict)
        rows = [(key, 0) for ids in verbs.FILES for key in ids]
        for writer in [first] if is_conflict else [first, 1 - first]:
            rows = verbs.VERBS[names[writer]][1](rows)
        assert played.rows() == sorted(rows), schedule.requests
    assert False in outcomes
