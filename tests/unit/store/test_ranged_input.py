"""Ranges fetched together: each byte is requested once while it is held."""

from __future__ import annotations

import pytest

from lazydelta.store import MemoryStore, RangedInput
from lazydelta.store import tuning as store_tuning
from lazydelta.store.layers.metered_store import MeteredStore

DATA = bytes(range(256)) * 40


@pytest.fixture
def opened(monkeypatch):
    monkeypatch.setattr(store_tuning, "COALESCE_GAP", 0)
    store = MeteredStore(MemoryStore({"f": DATA}))
    return RangedInput(store, "f", len(DATA)), store


def read(source, start, end):
    found = source.file.read_at(end - start, start)
    assert found == DATA[start:end]


def test_ranges_are_one_call_and_are_freed_with_the_context(opened):
    source, store = opened
    with source.fetched([(0, 10), (100, 200)]):
        assert [call.requests for call in store.calls] == [2]
        read(source, 2, 8)
        read(source, 100, 200)
        assert len(store.calls) == 1
    read(source, 2, 8)
    assert len(store.calls) == 2


def test_contexts_overlap(opened):
    source, store = opened
    first, second = source.fetched([(0, 10)]), source.fetched([(0, 10), (50, 60)])
    first.__enter__()
    second.__enter__()
    assert [call.bytes for call in store.calls] == [10, 10]
    first.__exit__(None, None, None)
    read(source, 50, 60)
    assert len(store.calls) == 2
    second.__exit__(None, None, None)
    read(source, 50, 60)
    assert len(store.calls) == 3


def test_a_local_object_is_not_fetched():
    store = MeteredStore(MemoryStore({"f": DATA}, root="/memory"))
    source = RangedInput(store, "f", len(DATA))
    with source.fetched([(0, 10)]):
        assert store.requests == 0
