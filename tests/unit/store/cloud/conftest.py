"""A store whose endpoint has faults that a test chooses."""

from __future__ import annotations

import pytest

from lazydelta.store import open_store, tuning
from lazydelta.store.layers.retrying_store import RetryingStore
from tests.unit.store.cloud.endpoint import CONFIG, Endpoint, options


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setattr(tuning, "ATTEMPT_SECONDS", 0.5)
    monkeypatch.setattr(tuning, "HEDGE_AFTER_SECONDS", 30.0)
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture
def store(endpoint):
    return RetryingStore(open_store("s3://lake/t", options(endpoint)), CONFIG)
