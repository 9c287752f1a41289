"""The disk cache: shared by processes, bounded, and never a reason to fail."""

from __future__ import annotations

import multiprocessing
import os

import pyarrow as pa
import pytest

from lazydelta.store import MemoryStore
from lazydelta.store.layers.caching_store import CachingStore
from lazydelta.store.layers.disk_cache import DiskCache
from lazydelta.store.layers.metered_store import MeteredStore


def block(size, value=b"x"):
    return pa.py_buffer(value * size)


def read(cache, *key):
    found = cache.get(*key)
    return None if found is None else bytes(found)


def test_a_block_is_found_by_its_key_only(tmp_path):
    cache = DiskCache(str(tmp_path / "new"), 10_000)
    assert read(cache, "a", 1) is None
    cache.put(block(100), "a", 1)
    assert read(DiskCache(str(tmp_path / "new"), 10_000), "a", 1) == b"x" * 100
    assert read(cache, "a", 2) is None
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"", b"LDC1", b"LDC1\0\0\0\0abc", b"garbage of some length"])
def test_a_damaged_block_is_ignored_and_deleted(tmp_path, damage):
    cache = DiskCache(str(tmp_path), 10_000)
    cache.put(block(100), "a")
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert read(cache, "a") is None
    assert not list(tmp_path.iterdir())


def test_the_least_recently_used_blocks_are_deleted_above_the_limit(tmp_path):
    cache = DiskCache(str(tmp_path), 8_000)
    for number in range(30):
        cache.put(block(900), number)
        for path in tmp_path.iterdir():
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))
        assert read(cache, 0) is not None  # used all the time
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 9_000
    assert read(cache, 29) is not None
    assert read(cache, 1) is None


def test_a_block_larger_than_an_eighth_of_the_cache_is_left_out(tmp_path):
    cache = DiskCache(str(tmp_path), 8_000)
    cache.put(block(2_000), "large")
    assert read(cache, "large") is None


def test_a_directory_that_cannot_be_used_is_an_empty_cache(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(str(tmp_path / "file"), 8_000)
    cache.put(block(10), "a")
    assert read(cache, "a") is None


def _use(directory, seed):
    cache = DiskCache(directory, 40_000)
    for number in range(200):
        key = (number * seed) % 50
        found = read(cache, key)
        if found is not None and found != b"%02d" % key * 500:
            raise AssertionError(key)
        cache.put(block(500, b"%02d" % key), key)


def test_processes_share_a_cache(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_use, args=(str(tmp_path), seed)) for seed in (3, 7, 11)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]


def cached(objects, tmp_path):
    metered = MeteredStore(objects)
    store = CachingStore(
        metered,
        directory="log",
        mutable=("log/hint",),
        unique="log/unique",
        memory_limit=1 << 20,
        disk=DiskCache(str(tmp_path), 1 << 20),
    )
    list(store.list_from("log"))
    metered.reset()
    return store, metered


def test_a_second_store_reads_from_the_disk(tmp_path):
    objects = MemoryStore({"log/1": b"abcdef", "log/unique/2": b"ghi", "log/hint": b"j"})
    for requests in (4, 1):
        store, metered = cached(objects, tmp_path)
        assert bytes(store.read("log/1")) == b"abcdef"
        assert bytes(store.read_ranges("log/unique/2", [(0, 1), (2, 3)])[1]) == b"i"
        assert bytes(store.read("log/hint")) == b"j"
        assert metered.requests == requests


def test_an_object_that_was_replaced_or_not_listed_is_not_read_from_the_disk(tmp_path):
    objects = MemoryStore({"log/1": b"abcdef"})
    cached(objects, tmp_path)[0].read("log/1")
    objects.write("log/1", b"ghi", overwrite=True)
    assert bytes(cached(objects, tmp_path)[0].read("log/1")) == b"ghi"
    objects.write("log/2", b"new", overwrite=True)
    store, metered = cached(objects, tmp_path)
    store._identities.clear()
    for _ in range(2):
        assert bytes(store.read("log/2")) == b"new"
    assert metered.requests == 1
