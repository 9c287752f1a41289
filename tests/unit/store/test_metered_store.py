from __future__ import annotations

import pickle
from collections import deque

import pytest

from lazydelta.errors import ObjectNotFoundError
from lazydelta.metrics import StoreCalled
from lazydelta.store import MemoryStore
from lazydelta.store.layers.metered_store import MeteredStore


@pytest.fixture
def store():
    return MeteredStore(MemoryStore({"d/a": b"0123456789", "d/b": b"xyz"}))


def test_calls_are_counted_by_operation_and_path(store):
    store.read("d/a")
    store.read_ranges("d/a", [(0, 2), (4, 5)])
    store.head("d/b")
    list(store.list_from("d"))
    list(store.list_from("empty"))
    store.write("d/c", b"1234", overwrite=False)
    store.delete(["d/a", "d/b"])
    assert store.requests_by_operation() == {
        "read": 3,
        "head": 1,
        "list": 2,
        "write": 1,
        "delete": 2,
    }
    assert store.requests == 9
    assert store.bytes_read == 13
    assert store.bytes_by_path() == {"d/a": 13}


def test_each_read_of_an_input_file_counts(store):
    with store.open_input("d/a") as file:
        assert store.requests == 0
        file.read_at(3, 2)
        file.seek(8)
        assert file.read(10) == b"89"
    assert [(call.operation, call.path, call.bytes) for call in store.calls] == [
        ("open", "d/a", 0),
        ("read", "d/a", 3),
        ("read", "d/a", 2),
    ]


def test_only_fetched_pages_of_a_listing_count():
    inner = MemoryStore({f"d/{number:05d}": b"" for number in range(3000)})
    store = MeteredStore(inner)
    pages = store.list_from("d")
    next(pages)
    pages.close()
    assert store.requests == 1
    list(store.list_from("d"))
    assert store.requests == 4


def test_failed_calls_count(store):
    with pytest.raises(ObjectNotFoundError):
        store.read("missing")
    assert store.requests == 1
    assert store.bytes_read == 0


def test_the_observer_receives_calls():
    events = []
    store = MeteredStore(MemoryStore({"a": b"xy"}), events.append)
    store.read("a")
    (event,) = events
    assert isinstance(event, StoreCalled)
    assert (event.operation, event.path, event.requests, event.bytes) == ("read", "a", 1, 2)
    assert event.seconds >= 0


def test_reset_and_pickle_drop_counts(store):
    store.read("d/a")
    assert pickle.loads(pickle.dumps(store)).calls == deque()
    store.reset()
    assert (store.requests, store.calls) == (0, deque())


def test_a_request_for_the_size_counts():
    class Remote(MemoryStore):
        native_files = False

    store = MeteredStore(Remote({"a": b"xy"}))
    store.open_input("a", size=2)
    assert store.requests == 0
    store.open_input("a")
    assert store.requests_by_operation() == {"open": 0, "head": 1}
