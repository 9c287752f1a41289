"""Servers that several modules share."""

from __future__ import annotations

import pytest

from tests.serving.flight_servers import server_process
from tests.serving.golden import LIMITS, PATHS
from tests.serving.recording import guarded_config, recording_store
from tests.serving.support import serving


@pytest.fixture(scope="session")
def golden_servers():
    """Two processes that serve all golden tables in small batches, with the same key of tokens."""
    settings = {"resume_key": "shared", **LIMITS}
    with server_process(PATHS, **settings) as one, server_process(PATHS, **settings) as other:
        yield one, other


@pytest.fixture(scope="session")
def stores():
    """The stores of `guarded`, which count requests."""
    return {"mine": recording_store(), "theirs": recording_store()}


@pytest.fixture(scope="session")
def guarded(stores):
    """A server of both doors with principals; see `guarded_config`."""
    with serving(guarded_config(), stores) as running:
        yield running


@pytest.fixture(scope="session")
def door(guarded):
    """The Flight door of `guarded`."""
    (found,) = guarded._server._doors
    return found
