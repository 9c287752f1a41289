"""Tests of the native decoder are skipped without it, except those of its absence."""

from __future__ import annotations

import pytest

from lazydelta.parquet import native as compiled
from tests.native.support import without_decoder


@pytest.fixture(autouse=True)
def _decoder_is_installed(request):
    if compiled._decoder() is None and "no_decoder" not in request.fixturenames:
        pytest.skip("the native decoder is not installed: `make native` builds it")


@pytest.fixture
def no_decoder():
    """Read as if the decoder were not installed."""
    with without_decoder():
        yield
