from __future__ import annotations

import pickle
import time

import pytest

from lazydelta.config import Config
from lazydelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)
from lazydelta.store import MemoryStore
from lazydelta.store.layers.retrying_store import RetryingStore
from lazydelta.store.ranges import open_ranges

CONFIG = Config(retry_attempts=4, retry_base_seconds=1.0, retry_cap_seconds=3.0)


class Flaky(MemoryStore):
    """Raises the given errors on the next calls, then works; records the calls."""

    native_files = False

    def __init__(self, objects=None):
        super().__init__(objects)
        self.failures = []
        self.calls = []

    def fail(self, *errors):
        self.failures = list(errors)
        return self

    def _record(self, *call):
        self.calls.append(call)
        if self.failures:
            raise self.failures.pop(0)

    def head(self, path):
        self._record("head", path)
        return super().head(path)

    def read(self, path):
        self._record("read", path)
        return super().read(path)

    def read_ranges(self, path, ranges):
        self._record("read_ranges", path, tuple(ranges))
        return super().read_ranges(path, ranges)

    def open_input(self, path, *, size=None):
        length = self.head(path).size if size is None else size
        return open_ranges(lambda *span: self.read_ranges(path, [span])[0], length)

    def write(self, path, data, *, overwrite):
        self._record("write", path)
        super().write(path, data, overwrite=overwrite)

    def delete(self, paths):
        self._record("delete", *paths)
        super().delete(paths)

    def list_from(self, directory, *, after=None):
        for page in super().list_from(directory, after=after):
            self._record("list", after)
            yield page


@pytest.fixture
def inner():
    return Flaky({"a": b"0123456789"})


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def store(inner, pauses):
    return RetryingStore(inner, CONFIG, sleep=pauses.append)


BUSY = TransientStoreError("a", "503 slow down")


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.read("a"),
        lambda store: store.head("a"),
        lambda store: store.read_ranges("a", [(0, 1)]),
        lambda store: store.delete(["a"]),
        lambda store: store.write("a", b"", overwrite=True),
        lambda store: store.open_input("a"),
        lambda store: store.open_input("a", size=10).read(),
        lambda store: list(store.list_from("")),
    ],
)
def test_transient_errors_are_retried(store, inner, pauses, call):
    inner.fail(BUSY, BUSY, BUSY)
    call(store)
    assert len(pauses) == 3
    inner.fail(*[BUSY] * 4)
    with pytest.raises(TransientStoreError):
        call(RetryingStore(inner.fail(*[BUSY] * 9), CONFIG, sleep=pauses.append))


def test_backoff_grows_to_the_cap_with_jitter(inner):
    for _ in range(200):
        pauses = []
        inner.fail(BUSY, BUSY, BUSY)
        RetryingStore(inner, CONFIG, sleep=pauses.append).read("a")
        assert all(0 <= pause <= longest for pause, longest in zip(pauses, (1, 2, 3), strict=True))
    assert pauses != [1, 2, 3]


@pytest.mark.parametrize(
    "error",
    [
        ObjectNotFoundError("a", "gone"),
        ObjectExistsError("a", "there"),
        StoreAccessError("a", "403"),
        StoreError("a", "not a path"),
    ],
)
def test_permanent_errors_are_not_retried(store, inner, pauses, error):
    inner.fail(error)
    with pytest.raises(type(error)):
        store.read("a")
    assert (len(inner.calls), pauses) == (1, [])


def test_a_write_without_overwrite_is_never_retried(store, inner, pauses):
    inner.fail(BUSY)
    with pytest.raises(TransientStoreError):
        store.write("new", b"", overwrite=False)
    assert (len(inner.calls), pauses) == (1, [])


def test_a_listing_resumes_where_it_failed(pauses):
    inner = Flaky({f"d/{number:05d}": b"" for number in range(2500)})
    store = RetryingStore(inner, CONFIG, sleep=pauses.append)
    pages = store.list_from("d")
    rows = [next(pages)]
    inner.fail(BUSY)
    rows += list(pages)
    names = [name for page in rows for name in page.column("path").to_pylist()]
    assert names == [f"d/{number:05d}" for number in range(2500)]
    assert [call[1] for call in inner.calls] == [None, None, "00999", "00999"]
    assert len(pauses) == 1


def test_no_attempt_starts_after_the_deadline(inner):
    config = Config(retry_attempts=100, retry_base_seconds=0, request_deadline_seconds=0.05)
    inner.fail(*[BUSY] * 50)
    with pytest.raises(TransientStoreError):
        RetryingStore(inner, config, sleep=lambda _: time.sleep(0.02)).read("a")
    assert len(inner.calls) < 10


def test_one_attempt_means_no_retry(inner, pauses):
    inner.fail(BUSY)
    with pytest.raises(TransientStoreError):
        RetryingStore(inner, Config(retry_attempts=1), sleep=pauses.append).read("a")
    assert pauses == []


def test_a_caller_may_choose_which_errors_are_retried(inner, pauses):
    missing = ObjectNotFoundError("a", "404")
    store = RetryingStore(inner, CONFIG, sleep=pauses.append, errors=(ObjectNotFoundError,))
    inner.fail(missing, missing)
    assert store.read("a") == b"0123456789"
    assert len(pauses) == 2
    inner.fail(BUSY)
    with pytest.raises(TransientStoreError):
        store.read("a")
    copy = pickle.loads(pickle.dumps(store))
    assert copy._errors == (ObjectNotFoundError,)
