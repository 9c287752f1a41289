"""When a store call ends early: at its deadline, set by the retry layer, or cancelled."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from lazydelta._cancellation import ended_by_cancellation, is_cancelled
from lazydelta.errors import ScanCancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["call_deadline", "check_cancelled", "pause", "remaining_seconds", "wait_for"]

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


def check_cancelled() -> None:
    """Raise an error if the work of this thread was cancelled."""
    if is_cancelled():
        raise ScanCancelledError


def pause(seconds: float) -> None:
    """Sleep, or raise an error as soon as the work of this thread is cancelled."""
    wait_for(Future(), seconds)


def wait_for(future: Future[Any], seconds: float | None) -> None:
    """Wait until a future is done or the time is over, or the work of this thread is cancelled."""
    ended = threading.Event()
    future.add_done_callback(lambda _: ended.set())
    with ended_by_cancellation(ended.set):
        ended.wait(seconds)
    check_cancelled()
