"""Two writers: every pair of operations in every interleaving of their steps that can matter.

A writer loads the table, plans a transaction and commits. The other writer can observe only its
requests to the store; everything between two requests is private. So the steps of a writer are its
requests, and an interleaving is a merge of the two sequences. Up to its first put a writer makes four
requests (hint, listing, commit 0, put): 70 merges. The rest is determined, since the first writer is
done by then. The phases of a commit are between requests, so stopping at them only gives finer
interleavings of the same runs: 572 to 2,836 for a pair, all run by `test_every_order_of_phases`.
Adjacent reads commute: eight interleavings remain, and the default suite runs them for every pair.

They fall into four classes, and each test asserts that there are no others: one of the writers puts
version 1 first, and the other listed the log before that put (a race, which the matrix decides) or
after it (no race, and it commits after version 1). Within a class every interleaving leaves the same
bytes in the log, the same results and the same phases. One of each class is compared with the matrix,
with the serial orders of the model, and with what the engine reads. The writers commit once each,
without hooks, on a store with atomic requests; for others see test_ambiguous.py and tests/crash.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest

from lazydelta.errors import DeltaError, TableExistsError
from lazydelta.scan import Scan
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import CommitResult, Transaction, commit, tuning
from lazydelta.transaction.retry import Clock
from tests.support import memory_store
from tests.unit.transaction.matrix import ERRORS
from tests.unit.transaction.operations import OPERATIONS, expected, serially, state_of
from tests.unit.transaction.schedule import Request, every_order
from tests.unit.transaction.support import (
    CONFIG,
    METADATA,
    PROTOCOL,
    base_of,
    commit_path,
    make_table,
    txn_ids,
    versions,
)

PAIRS = list(combinations_with_replacement(OPERATIONS, 2))
LEVELS = ("Serializable", "WriteSerializable")
_CHEAPEST = ("set-domain", "set-domain")
_CLASSES = {(first, raced) for first in (0, 1) for raced in (False, True)}
_NOW_MS = time.time_ns() // 10**6
_CLOCK = Clock(now_ms=lambda: _NOW_MS)  # so that equal commits have equal bytes


@pytest.fixture(autouse=True)
def _recent_listings(monkeypatch):
    """The clock stands still since collection, which may be long ago; listings are by real time."""
    monkeypatch.setattr(tuning, "FRESH_MS", 10**10)


_WON = ["start 1", "prepared 1", "put 1", "committed 1", "finished 1"]
_WON_LATER = [phase.replace("1", "2") for phase in _WON]
_LOST = ["start 1", "prepared 1", "put 1", "lost 1"]


class Played:
    """Two operations in one interleaving, and their outcomes."""

    def __init__(self, names, level, schedule):
        self.names, self.level = names, level
        self.store = make_table()
        self.schedule = schedule
        self.outcomes: dict[int, CommitResult | DeltaError] = {}
        schedule.run(self._work, self._work)

    def _work(self, number, observer):
        store = self.schedule.store(self.store, number)
        base = load_snapshot(store, CONFIG)
        planned = OPERATIONS[self.names[number]].plan(state_of(self.store, base.version), number)
        mine = replace(planned, txn_id=f"{number}", isolation=self.level)
        try:
            self.outcomes[number] = commit(
                mine, store=store, config=CONFIG, base=base, observer=observer, clock=_CLOCK
            )
        except DeltaError as error:
            self.outcomes[number] = error

    @property
    def kind(self):
        """The first writer, and whether the other had listed the log before its put."""
        requests = self.schedule.requests
        put = next(r for r in requests if (r.kind, r.path) == ("put", commit_path(1)))
        listed = Request(1 - put.writer, "list", "_delta_log")
        return put.writer, requests.index(listed) < requests.index(put)

    def trace(self):
        """Return everything observable of the run: the log, the results and the phases."""
        log = [bytes(self.store.read(commit_path(version))) for version in versions(self.store)]
        results = [self._result(self.outcomes[number]) for number in (0, 1)]
        return log, results, self.schedule.phases

    @staticmethod
    def _result(outcome):
        return repr(outcome) if isinstance(outcome, CommitResult) else (type(outcome), str(outcome))


def _check(played, first, raced):
    """Compare one interleaving with the matrix, the serial orders, and the engine's own reads."""
    second, names = 1 - first, played.names
    assert played.outcomes[first].version == 1
    assert played.schedule.phases[first] == _WON
    both_step = names[0] == names[1] == "app-step"
    outcome = expected(names[second], names[first], played.level) if raced else "."
    _check_second(played, second, raced, "done" if both_step else outcome)
    commits = txn_ids(played.store)
    assert commits[1:] == [f"{first}", f"{second}"][: len(commits) - 1]
    state = state_of(played.store, len(commits) - 1)
    start = state_of(played.store, 0)
    orders = [(first, second), (second, first)] if len(commits) == 3 else [(first,)]
    if played.level == "Serializable":
        orders = orders[:1]  # the order of the log
    assert state.visible() in [serially(start, names, order).visible() for order in orders]
    with Scan(base_of(played.store)).file_batches() as batches:
        found = [path for batch in batches for path in batch.column("path").to_pylist()]
    assert sorted(found) == sorted(state.files)


def _check_second(played, second, raced, expected_outcome):
    outcome, phases = played.outcomes[second], played.schedule.phases[second]
    if expected_outcome == ".":
        assert (outcome.version, outcome.attempts) == (2, 2 if raced else 1)
        assert phases == ([*_LOST, "rebased 2", *_WON_LATER[1:]] if raced else _WON_LATER)
        return
    assert versions(played.store) == [0, 1]
    assert phases == (_LOST if raced else ["start 2"])
    if expected_outcome == "done":
        assert (outcome.already_applied, outcome.version) == (True, 1)
    else:
        assert type(outcome) is ERRORS[expected_outcome]
        assert outcome.winning_version == 1


def _check_every_order(names, level, **stops):
    """Run all interleavings; returns their number."""
    traces: dict[tuple[int, bool], object] = {}
    count = 0
    for schedule in every_order(**stops):
        played = Played(names, level, schedule)
        kind = played.kind
        if kind not in traces:
            _check(played, *kind)
            traces[kind] = played.trace()
        assert played.trace() == traces[kind], schedule.requests
        count += 1
    assert set(traces) == _CLASSES
    return count


def _losing_outcomes(names, level):
    """Return the outcome in the matrix of each operation when it loses the race."""
    return [expected(*pair, level) for pair in (names, names[::-1])]


def _marks(names, level):
    """Where both levels have the same outcomes, the weaker one is left to the long run."""
    is_new = level == LEVELS[0] or _losing_outcomes(names, level) != _losing_outcomes(
        names, LEVELS[0]
    )
    return [] if is_new else [pytest.mark.long]


CASES = [
    pytest.param(names, level, id=f"{'-and-'.join(names)}-{level}", marks=_marks(names, level))
    for names in PAIRS
    for level in LEVELS
]


@pytest.mark.parametrize(("names", "level"), CASES)
def test_every_order_of_requests_that_can_differ(names, level):
    assert _check_every_order(names, level, each_read=False) == 8


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("names", PAIRS, ids="-and-".join)
def test_every_order_of_requests(names, level):
    assert _check_every_order(names, level) == 70


def _orders_of_phases(names):
    """Return the number of interleavings: it grows with the number of phases."""
    if names == ("app-step", "app-step"):
        return 572  # the second writer without a race ends at once
    return (616, 1726, 2836)[_losing_outcomes(names, "Serializable").count(".")]


@pytest.mark.parametrize(
    "names",
    [pytest.param(pair, marks=[pytest.mark.long] if pair != _CHEAPEST else []) for pair in PAIRS],
    ids="-and-".join,
)
def test_every_order_of_phases(names):
    count = _check_every_order(names, "Serializable", at_phases=True)
    assert count == _orders_of_phases(names)


@pytest.mark.parametrize(
    "at_phases",
    [pytest.param(False, id="requests"), pytest.param(True, id="phases", marks=pytest.mark.long)],
)
def test_every_order_of_two_creators(at_phases):
    """One writer creates version 0, the other gets `TableExistsError`, and nothing is mixed."""
    winners = set()
    for schedule in every_order(at_phases=at_phases):
        store = memory_store()
        results: dict[int, object] = {}

        def work(number, observer, store=store, results=results, schedule=schedule):
            mine = replace(METADATA, id=f"table-{number}")
            create = Transaction(operation="CREATE TABLE", protocol=PROTOCOL, metadata=mine)
            own = schedule.store(store, number)
            try:
                commit(create, store=own, config=CONFIG, base=None, observer=observer)
                results[number] = "created"
            except TableExistsError:
                results[number] = "exists"

        schedule.run(work, work)
        assert sorted(results.values()) == ["created", "exists"]
        winner = min(results, key=results.get)
        assert versions(store) == [0]
        assert base_of(store).metadata.id == f"table-{winner}"
        winners.add(winner)
    assert winners == {0, 1}
