"""`StoreContract` for filesystems of fsspec, and tables opened with `store=`."""

from __future__ import annotations

import pickle
import threading
import uuid

import pytest

from lazydelta import Table
from lazydelta.errors import ConfigError, StoreAccessError
from lazydelta.store import open_store
from lazydelta.testing import StoreContract

memory = pytest.importorskip(
    "fsspec.implementations.memory", reason="fsspec is not installed: pip install fsspec"
)


class LockedFilesystem(memory.MemoryFileSystem):
    """A filesystem that creates exclusively, as s3fs does."""

    protocol = "s3"
    store = {}  # noqa: RUF012 - shared, as that of the base class
    pseudo_dirs = [""]  # noqa: RUF012
    lock = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + path.removeprefix("s3://").strip("/")

    def unstrip_protocol(self, name):
        return f"s3://{name.lstrip('/')}"

    def pipe_file(self, path, value, mode="overwrite", **more):
        with self.lock:
            super().pipe_file(path, value, mode=mode, **more)


class TestFsspec(StoreContract):
    @pytest.fixture
    def store(self):
        return open_store(f"s3://lake/{uuid.uuid4().hex}/a%20table", store=LockedFilesystem())

    def test_a_pickled_store_reads_the_same_objects(self, store):
        with pytest.raises(ConfigError, match="another process"):
            pickle.dumps(store)


def test_a_table_is_written_and_read():
    url = f"s3://lake/{uuid.uuid4().hex}"
    table = Table.open(url, store=LockedFilesystem())
    table.write({"id": [1, 2]})
    assert table.url == url
    assert Table.open(f"{url}/", store=LockedFilesystem()).to_arrow()["id"].to_pylist() == [1, 2]


def test_a_filesystem_without_exclusive_create_is_read_only():
    url = f"memory://lake/{uuid.uuid4().hex}"
    table = Table.open(url, store=memory.MemoryFileSystem())
    with pytest.raises(StoreAccessError, match="storage_options"):
        table.write({"id": [1, 2]})
    store = open_store(url, store=memory.MemoryFileSystem())
    with pytest.raises(StoreAccessError, match="MemoryFileSystem cannot create"):
        store.write("a", b"x", overwrite=False)
    store.write("a", b"x", overwrite=True)
    assert bytes(store.read("a")) == b"x"
