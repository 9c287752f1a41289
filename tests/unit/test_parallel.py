from __future__ import annotations

import threading
import time

import pytest

from lazydelta._parallel import ordered_map, prefetch, unordered_merge


@pytest.mark.parametrize("width", [1, 2, 8])
def test_results_are_in_the_order_of_the_items(width):
    def slow(item):
        time.sleep(0.002 * (item % 3))
        return item * 2

    assert list(ordered_map(slow, range(20), width=width)) == [2 * item for item in range(20)]


def test_at_most_width_calls_run_concurrently():
    running, most, lock = 0, 0, threading.Lock()

    def work(item):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return item

    assert len(list(ordered_map(work, range(30), width=4))) == 30
    assert 2 <= most <= 4


def test_closing_cancels_calls_that_have_not_started():
    started = []

    def work(item):
        started.append(item)
        return item

    results = ordered_map(work, range(1000), width=3)
    assert next(results) == 0
    results.close()
    assert len(started) <= 5


def test_an_error_is_raised_in_order():
    def work(item):
        if item == 2:
            raise ValueError(item)
        return item

    results = ordered_map(work, range(5), width=4)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="2"):
        next(results)


def test_prefetch_runs_at_most_depth_items_ahead():
    made = []

    def produce():
        for item in range(100):
            made.append(item)
            yield item

    items = prefetch(produce, depth=3)
    assert next(items) == 0
    time.sleep(0.05)
    assert len(made) <= 6
    assert list(items) == list(range(1, 100))


def test_prefetch_raises_after_the_items_before_the_error():
    def produce():
        yield 1
        yield 2
        raise KeyError("x")

    items = prefetch(produce, depth=5)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(KeyError):
        next(items)


def test_closing_prefetch_closes_the_producer_before_it_returns():
    closed = threading.Event()

    def produce():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    items = prefetch(produce, depth=2)
    next(items)
    items.close()
    assert closed.is_set()
    assert not [t for t in threading.enumerate() if t.name == "lazydelta-prefetch"]


def test_nothing_runs_before_the_first_item_is_requested():
    called = []

    def produce():
        called.append(1)
        yield 1

    items = prefetch(produce, depth=1)
    time.sleep(0.02)
    assert called == []
    assert list(items) == [1]


def test_merged_iterators_yield_every_item_once():
    sources = [lambda n=n: iter(range(n * 100, n * 100 + 50)) for n in range(7)]
    merged = unordered_merge(sources, width=3, depth=2)
    assert sorted(merged) == [n * 100 + i for n in range(7) for i in range(50)]
    assert list(unordered_merge([], width=3, depth=2)) == []


def test_closing_merged_iterators_closes_them_all():
    closed, threads = [], threading.active_count()

    def endless(name):
        try:
            while True:
                yield name
        finally:
            closed.append(name)

    merged = unordered_merge([lambda n=n: endless(n) for n in "abc"], width=3, depth=1)
    assert next(merged) in "abc"
    while len({next(merged) for _ in range(50)}) < 2:
        pass
    merged.close()
    assert set(closed) <= set("abc")
    assert threading.active_count() <= threads + 3


def test_the_error_of_a_merged_iterator_is_raised():
    def failing():
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(unordered_merge([failing, lambda: iter(range(10))], width=2, depth=1))
