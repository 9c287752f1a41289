"""The cache of log objects: one request for each byte, never stale, bounded."""

from __future__ import annotations

import os
import pickle
import threading

import pytest

from lazydelta.errors import ObjectNotFoundError, TransientStoreError
from lazydelta.store import MemoryStore
from lazydelta.store.layers import prefetch
from lazydelta.store.layers.caching_store import CachingStore
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.testing import Fault, FaultyStore

HINT = "log/hint"


def cached(objects, *, memory_limit=1 << 20):
    """Return a caching store over a metered one, and the metered one."""
    metered = MeteredStore(MemoryStore(objects))
    return CachingStore(
        metered, directory="log", mutable=(HINT,), unique="log/unique", memory_limit=memory_limit
    ), metered


def test_an_immutable_object_is_requested_once_by_all_threads():
    store, metered = cached({"log/1": b"abcdef"})
    threads = [threading.Thread(target=store.read, args=("log/1",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bytes(store.read("log/1")) == b"abcdef"
    assert metered.requests == 1


def test_ranges_come_from_the_whole_object_or_from_cached_ranges():
    store, metered = cached({"log/1": b"abcdef", "log/2": b"ghijkl"})
    store.read("log/1")
    assert [bytes(b) for b in store.read_ranges("log/1", [(1, 3), (5, 6)])] == [b"bc", b"f"]
    assert bytes(store.read_ranges("log/2", [(2, 6)])[0]) == b"ijkl"
    assert [bytes(b) for b in store.read_ranges("log/2", [(3, 4), (0, 1)])] == [b"j", b"g"]
    assert metered.requests == 3


@pytest.mark.parametrize("path", [HINT, "data/1", "logs/1"])
def test_other_objects_are_not_cached(path):
    store, metered = cached({path: b"abc"})
    prefetch(store, path)
    for _ in range(2):
        assert bytes(store.read(path)) == b"abc"
        assert bytes(store.read_ranges(path, [(0, 2)])[0]) == b"ab"
    assert metered.requests == 4


def test_a_prefetched_object_is_not_requested_again():
    store, metered = cached({"log/1": b"abcdef"})
    prefetch(store, "log/1", 2, 6)
    prefetch(store, "log/1", 3, 4)
    assert bytes(store.read_ranges("log/1", [(3, 5)])[0]) == b"de"
    assert metered.requests == 1


def test_an_error_of_a_prefetch_is_raised_by_the_read_and_not_cached():
    store, metered = cached({"log/1": b"abc"})
    prefetch(store, "log/2")
    with pytest.raises(ObjectNotFoundError):
        store.read("log/2")
    metered.write("log/2", b"x", overwrite=True)
    assert bytes(store.read("log/2")) == b"x"


def test_a_failed_read_is_repeated():
    fault = Fault(operation="read", kind="before", path="log/1")
    inner = FaultyStore(MemoryStore({"log/1": b"abc"}), [fault])
    store = CachingStore(inner, directory="log", mutable=(), unique="log/unique", memory_limit=100)
    with pytest.raises(TransientStoreError):
        store.read("log/1")
    assert bytes(store.read("log/1")) == b"abc"


def test_a_listing_with_another_size_or_time_drops_cached_bytes():
    store, metered = cached({"log/1": b"abc"})
    list(store.list_from("log"))
    store.read("log/1")
    list(store.list_from("log"))
    store.read("log/1")
    assert metered.requests_by_operation()["read"] == 1
    metered.write("log/1", b"defg", overwrite=True)  # by another process
    list(store.list_from("log"))
    assert bytes(store.read("log/1")) == b"defg"


def test_writes_and_deletes_drop_cached_bytes():
    store, _ = cached({"log/1": b"abc"})
    store.read("log/1")
    store.write("log/1", b"def", overwrite=True)
    assert bytes(store.read("log/1")) == b"def"
    store.delete(["log/1"])
    with pytest.raises(ObjectNotFoundError):
        store.read("log/1")


def test_the_least_recently_used_objects_are_dropped_above_the_limit():
    store, metered = cached({f"log/{n}": b"x" * 10 for n in range(4)}, memory_limit=30)
    for name in ("0", "1", "2", "0", "3"):
        store.read(f"log/{name}")
    metered.reset()
    for name in ("0", "2", "3"):
        store.read(f"log/{name}")
    assert metered.requests == 0
    store.read("log/1")
    assert metered.requests == 1


def test_a_pickled_copy_starts_empty():
    store, _ = cached({"log/1": b"abc"})
    store.read("log/1")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.root == store.root
    assert bytes(copy.read("log/1")) == b"abc"
    assert copy.inner.requests == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_requests_of_its_parent():
    store, _ = cached({"log/1": b"abc"})
    prefetch(store, "log/1")
    store.read("log/1")
    child = os.fork()
    if child == 0:
        prefetch(store, "log/1")
        os._exit(0 if bytes(store.read("log/1")) == b"abc" else 1)
    assert os.waitpid(child, 0)[1] == 0
