"""Servers that the golden tests of both protocols share."""

from __future__ import annotations

import pytest

from tests.serving.flight_servers import server_process
from tests.serving.golden import LIMITS, PATHS


@pytest.fixture(scope="session")
def golden_servers():
    """Two processes that serve all golden tables in small batches, with the same key of tokens."""
    settings = {"resume_key": "shared", **LIMITS}
    with server_process(PATHS, **settings) as one, server_process(PATHS, **settings) as other:
        yield one, other
