"""Two writers, every order of their steps: whoever is first wins, and the second does as the matrix says.

A scheduler lets one writer at a time go on to its next phase, and runs through all the choices it
has, so that no order is left out and a failing one can be named.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest

from lazydelta import errors
from tests.commit.matrix import MINE
from tests.commit.support import base_of, make_table, run, txn_ids, versions

# What the second of two says to the first. Symmetric pairs are written once per order.
_NAMES = ("blind", "read-a", "delete-a", "overwrite", "optimize-a", "alter", "txn-5")
_READ_ROW_OF_A = ("read-a", "delete-a", "overwrite")
_STOPS = ("start", "put", "lost", "committed")


def expected(second, first):
    """Return the error of the second writer, None where it is a commit, or `done`."""
    writes_a = first in {"blind", "read-a", "delete-a", "overwrite", "txn-5"}
    if first == second == "alter":
        return errors.MetadataChangedError
    if first == "alter":
        return errors.MetadataChangedError
    if first == second == "txn-5":
        return "done"
    if second in _READ_ROW_OF_A and (writes_a or first == "optimize-a"):
        return errors.ConcurrentAppendError
    if second == "optimize-a" and first in {"delete-a", "overwrite", "optimize-a"}:
        return errors.ConcurrentDeleteReadError
    return None


class Scheduler:
    """Runs writers in threads, one step at a time, along one path through all possible orders."""

    def __init__(self, choices):
        self.choices = list(choices)
        self.options: list[int] = []
        self.arrived = threading.Semaphore(0)
        self.go: list[threading.Semaphore] = []
        self.waiting: set[int] = set()
        self.done: set[int] = set()

    def observer(self, number):
        def observe(phase, version):
            if phase in _STOPS:
                self.waiting.add(number)
                self.arrived.release()
                self.go[number].acquire()

        return observe

    def run(self, works):
        self.go = [threading.Semaphore(0) for _ in works]
        threads = [
            threading.Thread(target=self._work, args=(number, work), name=f"writer-{number}")
            for number, work in enumerate(works)
        ]
        for thread in threads:  # each runs to its first stop, alone
            thread.start()
            self.arrived.acquire()
        while len(self.done) < len(works):
            ready = sorted(self.waiting)
            step = len(self.options)
            choice = self.choices[step] if step < len(self.choices) else 0
            self.options.append(len(ready))
            self.waiting.discard(ready[choice])
            self.go[ready[choice]].release()
            self.arrived.acquire()
        for thread in threads:
            thread.join()

    def _work(self, number, work):
        try:
            work(self.observer(number))
        finally:
            self.waiting.discard(number)
            self.done.add(number)
            self.arrived.release()


def all_orders(run_one):
    """Call `run_one` with a scheduler for every order of steps; returns how many there were."""
    choices: list[int] = []
    count = 0
    while True:
        scheduler = Scheduler(choices)
        run_one(scheduler)
        count += 1
        taken = [choices[i] if i < len(choices) else 0 for i in range(len(scheduler.options))]
        while taken and taken[-1] + 1 >= scheduler.options[len(taken) - 1]:
            taken.pop()
        if not taken:
            return count
        taken[-1] += 1
        choices = taken


def _one_order(names, scheduler):
    store = make_table()
    base = base_of(store)
    mine = [replace(MINE[name], txn_id=f"{number}") for number, name in enumerate(names)]
    outcomes: dict[int, object] = {}

    def work(number):
        def go(observer):
            try:
                outcomes[number] = run(mine[number], store, base, observer=observer)
            except errors.DeltaError as error:
                outcomes[number] = error

        return go

    scheduler.run([work(0), work(1)])
    first = int(txn_ids(store)[1])
    second = 1 - first
    assert outcomes[first].version == 1
    says = expected(names[second], names[first])
    if says is None:
        assert outcomes[second].version == 2
        assert txn_ids(store)[2] == str(second)
    elif says == "done":
        assert outcomes[second].already_applied
        assert versions(store) == [0, 1]
    else:
        assert type(outcomes[second]) is says
        assert versions(store) == [0, 1]


@pytest.mark.parametrize("names", list(combinations_with_replacement(_NAMES, 2)), ids="-and-".join)
def test_every_order_of_two_writers(names):
    winners = set()

    def one(scheduler):
        _one_order(names, scheduler)
        winners.add(tuple(scheduler.options))

    assert all_orders(one) >= 20
