"""Deadline of a store call, set by the retry layer and read by the requests below it."""

from __future__ import annotations

import contextlib
import math
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["call_deadline", "remaining_seconds"]

_DEADLINE: ContextVar[float] = ContextVar("lazydelta_request_deadline", default=math.inf)


@contextlib.contextmanager
def call_deadline(seconds: float) -> Iterator[None]:
    """Limit the requests of this context to `seconds` from now; an outer deadline still holds."""
    token = _DEADLINE.set(min(_DEADLINE.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def remaining_seconds() -> float:
    """Return the time until the deadline; infinite without one, never negative."""
    return max(_DEADLINE.get() - time.monotonic(), 0.0)
