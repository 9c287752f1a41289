"""A data file that is in the log but not yet visible in a remote store."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from lazydelta import Config, Table, write
from lazydelta.errors import DataFileNotFoundError, ObjectNotFoundError
from lazydelta.store import MemoryStore

CONFIG = Config(retry_attempts=4, retry_base_seconds=0.001)


class Eventual(MemoryStore):
    """Raises not found for the first requests of each data file."""

    def __init__(self, hidden, root, *, native_files):
        super().__init__(root=root)
        self.hidden = 0
        self.native_files = native_files
        self._hidden = hidden
        self._requests = Counter()
        self._counting = threading.Lock()

    def show(self):
        self.hidden = self._hidden
        self._requests.clear()
        return self

    def requests(self):
        return dict(self._requests)

    def _get(self, path):
        if "_delta_log" not in path:
            with self._counting:
                self._requests[path] += 1
                if self._requests[path] <= self.hidden:
                    raise ObjectNotFoundError(path, "404")
        return super()._get(path)


def written(hidden, *, root="memory://table", native_files=True):
    store = Eventual(hidden, root, native_files=native_files)
    table = Table(store, CONFIG)
    for number in range(3):
        write(table, {"id": [number]}, "append", properties={"delta.enableChangeDataFeed": "true"})
    store.show()
    return store, table


@pytest.mark.parametrize("native_files", [True, False])
def test_a_file_that_becomes_visible_is_read(native_files):
    store, table = written(3, native_files=native_files)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2]
    store.show()
    assert table.changes().to_arrow()["id"].to_pylist() == [0, 1, 2]


def test_retries_are_bounded():
    store, table = written(10**6)
    with pytest.raises(DataFileNotFoundError):
        table.scan("id = 1").to_arrow()
    assert set(store.requests().values()) == {CONFIG.retry_attempts}
    store.show()
    with pytest.raises(DataFileNotFoundError):
        table.changes(starting_version=1, ending_version=1).to_arrow()
    assert set(store.requests().values()) == {CONFIG.retry_attempts}


def test_a_local_store_is_not_retried():
    store, table = written(10**6, root="/memory")
    with pytest.raises(DataFileNotFoundError):
        table.scan("id = 1").to_arrow()
    assert set(store.requests().values()) == {1}
