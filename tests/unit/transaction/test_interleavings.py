"""Two writers, every pair of operations, every order of their steps that can make a difference.

A writer loads the table, plans on what it found, and commits. Of this only its requests to the
store touch anything that the other can see: what lies between two requests happens in memory of its
own. So the steps of a writer are its requests, and an order is a merge of the two sequences. Up to
its first put a writer makes four (hint, listing, commit 0, put): 70 merges, in which the rest is
forced, since nothing is left to do for who came first. The phases of a commit lie between requests,
and stopping at them only gives more names to the same orders: 572 to 2,836 for a pair, of which
`test_every_order_of_phases` plays each. Two reads change nothing, so where one follows the other,
exchanging them is the same run: eight orders remain, which are played every day for every pair.

They fall into four classes, and each test asserts that there are no others: one of the writers puts
version 1 first, and the other listed the log before that put (a race, which the matrix decides) or
after it (no race, and it builds upon version 1). Within a class every order leaves the same bytes in
the log, the same results and the same phases; one of them is held against the matrix, the serial
orders of the model, and what the engine itself reads. All this is shown for writers that commit once
each, without hooks, on a store whose requests are atomic; for others see test_ambiguous.py and
tests/crash.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest

from lazydelta.errors import DeltaError, TableExistsError
from lazydelta.scan import Scan
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import CommitResult, Transaction, commit
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
_WON = ["start 1", "prepared 1", "put 1", "committed 1", "finished 1"]
_WON_LATER = [phase.replace("1", "2") for phase in _WON]
_LOST = ["start 1", "prepared 1", "put 1", "lost 1"]


class Played:
    """Two operations in one order of their steps, and what came of it."""

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
        """Who was first, and whether the other had listed the log by then."""
        asked = self.schedule.requests
        put = next(r for r in asked if (r.kind, r.path) == ("put", commit_path(1)))
        listed = Request(1 - put.writer, "list", "_delta_log")
        return put.writer, asked.index(listed) < asked.index(put)

    def trace(self):
        """Return all that is left of it: the log, what the writers were told, their phases."""
        log = [bytes(self.store.read(commit_path(version))) for version in versions(self.store)]
        said = [self._said(self.outcomes[number]) for number in (0, 1)]
        return log, said, self.schedule.phases

    @staticmethod
    def _said(outcome):
        return repr(outcome) if isinstance(outcome, CommitResult) else (type(outcome), str(outcome))


def _check(played, first, raced):
    """Hold one order against the matrix, the serial orders, and what the engine reads."""
    second, names = 1 - first, played.names
    assert played.outcomes[first].version == 1
    assert played.schedule.phases[first] == _WON
    both_step = names[0] == names[1] == "app-step"
    says = expected(names[second], names[first], played.level) if raced else "."
    _check_second(played, second, raced, "done" if both_step else says)
    commits = txn_ids(played.store)
    assert commits[1:] == [f"{first}", f"{second}"][: len(commits) - 1]
    state = state_of(played.store, len(commits) - 1)
    start = state_of(played.store, 0)
    orders = [(first, second), (second, first)] if len(commits) == 3 else [(first,)]
    if played.level == "Serializable":
        orders = orders[:1]  # that of the log
    assert state.meaning() in [serially(start, names, order).meaning() for order in orders]
    with Scan(base_of(played.store)).file_batches() as batches:
        found = [path for batch in batches for path in batch.column("path").to_pylist()]
    assert sorted(found) == sorted(state.files)


def _check_second(played, second, raced, says):
    outcome, phases = played.outcomes[second], played.schedule.phases[second]
    if says == ".":
        assert (outcome.version, outcome.attempts) == (2, 2 if raced else 1)
        assert phases == ([*_LOST, "rebased 2", *_WON_LATER[1:]] if raced else _WON_LATER)
        return
    assert versions(played.store) == [0, 1]
    assert phases == (_LOST if raced else ["start 2"])
    if says == "done":
        assert (outcome.already_applied, outcome.version) == (True, 1)
    else:
        assert type(outcome) is ERRORS[says]
        assert outcome.winning_version == 1


def _check_every_order(names, level, **stops):
    """Play all orders; returns how many there were."""
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


def _says(names, level):
    """Return what the matrix says of either when it loses the race."""
    return [expected(*pair, level) for pair in (names, names[::-1])]


def _marks(names, level):
    """Where the levels agree, the relaxed one has nothing new to say every day."""
    is_new = level == LEVELS[0] or _says(names, level) != _says(names, LEVELS[0])
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
    """Return how many there are: the more phases are passed, the more."""
    if names == ("app-step", "app-step"):
        return 572  # who comes second without a race ends at once
    return (616, 1726, 2836)[_says(names, "Serializable").count(".")]


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
    """One gets version 0, the other is told that there is a table, and nothing is mixed."""
    winners = set()
    for schedule in every_order(at_phases=at_phases):
        store = memory_store()
        told: dict[int, object] = {}

        def work(number, observer, store=store, told=told, schedule=schedule):
            mine = replace(METADATA, id=f"table-{number}")
            create = Transaction(operation="CREATE TABLE", protocol=PROTOCOL, metadata=mine)
            own = schedule.store(store, number)
            try:
                commit(create, store=own, config=CONFIG, base=None, observer=observer)
                told[number] = "created"
            except TableExistsError:
                told[number] = "exists"

        schedule.run(work, work)
        assert sorted(told.values()) == ["created", "exists"]
        winner = min(told, key=told.get)
        assert versions(store) == [0]
        assert base_of(store).metadata.id == f"table-{winner}"
        winners.add(winner)
    assert winners == {0, 1}
