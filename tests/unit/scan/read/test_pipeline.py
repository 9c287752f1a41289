"""Prefetch pipeline: bounded, ordered on request, stopped on close."""

from __future__ import annotations

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from lazydelta.scan.read.pipeline import _Exchange, read_ahead


def batch(task, part=0, rows=1000):
    return pa.record_batch({"task": np.full(rows, task), "part": np.full(rows, part)})


def key(found):
    return found["task"][0].as_py(), found["part"][0].as_py()


def three_each(task):
    for part in range(3):
        yield batch(task, part)


def slow_first(task):
    if task == 0:
        time.sleep(0.05)
    yield from three_each(task)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("limit", [0, 20_000, 10**9])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("keeps_all", [True, False])
def test_every_batch_is_returned_once(width, limit, ordered, keeps_all):
    how = {"memory_limit": limit, "ordered": ordered, "keeps_all": keeps_all}
    found = list(read_ahead(iter(range(20)), slow_first, width=width, **how))
    expected = [(task, part) for task in range(20) for part in range(3)]
    keys = [key(one) for one in found]
    assert keys == expected if ordered else sorted(keys) == expected


class Watched(threading.Condition):
    """Counts notifications from other threads than the consumer."""

    def __init__(self):
        super().__init__()
        self.consumer, self.woken = threading.get_ident(), 0

    def notify_all(self):
        self.woken += threading.get_ident() != self.consumer
        super().notify_all()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_collecting_consumer_is_not_woken_per_batch(ordered):
    def woken(limit, *, keeps_all):
        how = {"width": 2, "memory_limit": limit, "ordered": ordered, "keeps_all": keeps_all}
        exchange = _Exchange(iter(range(30)), three_each, **how)
        exchange._changed = Watched()
        exchange.start_worker()
        found = list(iter(exchange.get, None))
        for worker in exchange.workers:
            worker.join()
        assert len(found) == 90
        return exchange._changed.woken

    size = batch(0).nbytes
    assert woken(10**9, keeps_all=True) == 2  # on thread exit
    assert woken(10**9, keeps_all=False) >= 90
    assert 2 < woken(20 * size, keeps_all=True) < 120


def test_as_ready_does_not_wait_for_the_first():
    found = read_ahead(iter([0, 1]), slow_first, width=2, memory_limit=10**9, ordered=False)
    assert key(next(found))[0] == 1
    found.close()


@pytest.mark.parametrize("ordered", [True, False])
def test_the_queue_is_bounded(ordered):
    made = []

    def counted(task):
        for part in range(100):
            made.append((task, part))
            yield batch(task, part)

    limit = 5 * batch(0).nbytes
    found = read_ahead(iter(range(4)), counted, width=2, memory_limit=limit, ordered=ordered)
    next(found)
    time.sleep(0.2)  # a stalled consumer
    assert len(made) <= 5 + 2 + 2 + 1  # queued, held by each thread, consumed
    found.close()


@pytest.mark.parametrize("limit", [0, 5])
def test_a_slow_first_task_does_not_unbound_the_queue(limit):
    made, blocked, released = [], threading.Event(), threading.Event()

    def counted(task):
        if task == 0:
            assert released.wait(10)
        for part in range(3):
            made.append((task, part))
            if task and len(made) > limit:
                blocked.set()
            yield batch(task, part)

    how = {"memory_limit": limit * batch(0).nbytes, "ordered": True}
    found = read_ahead(iter(range(40)), counted, width=3, **how)
    first = []
    consumer = threading.Thread(target=lambda: first.append(next(found)))
    consumer.start()
    assert blocked.wait(10)
    time.sleep(0.1)
    assert len(made) <= limit + 2  # queued, and held by each of two threads
    released.set()
    consumer.join(10)
    keys = [key(one) for one in (*first, *found)]
    assert keys == [(task, part) for task in range(40) for part in range(3)]


@pytest.mark.parametrize("ordered", [True, False])
def test_closing_stops_threads_files_and_tasks(ordered):
    closed = []

    def endless(task):
        try:
            while True:
                yield batch(task)
        finally:
            closed.append(task)

    def tasks():
        try:
            yield from range(10)
        finally:
            closed.append("tasks")

    found = read_ahead(tasks(), endless, width=3, memory_limit=1, ordered=ordered)
    next(found)
    found.close()
    assert closed[-1] == "tasks"
    assert sorted(closed[:-1]) == sorted(set(closed[:-1]))
    assert not [t for t in threading.enumerate() if t.name.startswith("lazydelta-read")]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_task_error_stops_the_pipeline(ordered):
    def failing(task):
        yield batch(task)
        if task == 3:
            raise ValueError("task 3")

    found = read_ahead(iter(range(1000)), failing, width=2, memory_limit=10**9, ordered=ordered)
    with pytest.raises(ValueError, match="task 3"):
        list(found)


def test_an_error_of_the_task_source_is_raised():
    def tasks():
        yield 1
        raise ValueError("no more tasks")

    found = read_ahead(tasks(), three_each, width=2, memory_limit=10**9, ordered=True)
    with pytest.raises(ValueError, match="no more tasks"):
        list(found)


def test_no_tasks_no_batches():
    assert not list(read_ahead(iter([]), three_each, width=2, memory_limit=1, ordered=True))


def test_tasks_are_pulled_on_demand():
    pulled = []

    def tasks():
        for task in range(100):
            pulled.append(task)
            yield task

    found = read_ahead(tasks(), three_each, width=2, memory_limit=1, ordered=True)
    next(found)
    time.sleep(0.1)
    assert len(pulled) <= 4
    found.close()


@pytest.mark.parametrize(("tasks", "most"), [(0, 1), (1, 2), (3, 4), (50, 8)])
def test_few_tasks_start_few_threads(monkeypatch, tasks, most):
    started, plain = [], threading.Thread.start

    def noted(self):
        started.append(self.name)
        plain(self)

    monkeypatch.setattr(threading.Thread, "start", noted)
    found = read_ahead(iter(range(tasks)), three_each, width=8, memory_limit=10**9, ordered=False)
    assert len(list(found)) == 3 * tasks
    assert 1 <= len(started) <= most


def test_the_requested_number_of_threads_run_concurrently():
    """Each thread waits for the others."""
    together = threading.Barrier(4, timeout=30)

    def read(task):
        together.wait()
        yield batch(task)

    found = read_ahead(iter(range(4)), read, width=4, memory_limit=10**9, ordered=True)
    assert [key(one)[0] for one in found] == [0, 1, 2, 3]
