"""The store contract of local stores, alone and wrapped."""

from __future__ import annotations

import pytest

from lazydelta.config import Config
from lazydelta.store import MemoryStore, open_store
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.store.layers.retrying_store import RetryingStore
from lazydelta.testing import StoreContract


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return open_store(tmp_path / "a table")


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()


class TestMeteredStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return MeteredStore(open_store(tmp_path))


class TestRetryingStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return RetryingStore(open_store(tmp_path), Config())


class _Remote(MemoryStore):
    """In memory, but read by range requests like a remote store."""

    native_files = False


class TestRetryingRemoteStore(StoreContract):
    @pytest.fixture
    def store(self):
        return RetryingStore(MeteredStore(_Remote()), Config())
