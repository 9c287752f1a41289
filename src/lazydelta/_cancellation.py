"""End what other threads wait for: requests to a store, and pauses between them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Cancellation", "ended_by_cancellation", "inherited", "is_cancelled"]

P = ParamSpec("P")
R = TypeVar("R")


class Cancellation:
    """Ends the waits of all threads that work for one purpose; any thread may cancel.

    A thread works for it within `active()`; so do the threads of `_parallel` that it starts there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[object, Callable[[], object]] = {}
        self.is_set = False

    def cancel(self) -> None:
        """End the waits that have begun, and all later ones."""
        with self._lock:
            self.is_set = True
            waits = list(self._waits.values())
        for end in waits:
            end()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let this thread work for it, and for those that are active already."""
        token = _ACTIVE.set((*_ACTIVE.get(), self))
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def add(self, wait: object, end: Callable[[], object]) -> None:
        """Call `end` at the cancellation, or now if that has happened."""
        with self._lock:
            self._waits[wait] = end
            is_set = self.is_set
        if is_set:
            end()

    def remove(self, wait: object) -> None:
        """Forget a wait that is over."""
        with self._lock:
            self._waits.pop(wait, None)


_ACTIVE: ContextVar[tuple[Cancellation, ...]] = ContextVar("lazydelta_cancellations", default=())


def is_cancelled() -> bool:
    """Whether the work of this thread was cancelled."""
    return any(cancellation.is_set for cancellation in _ACTIVE.get())


@contextmanager
def ended_by_cancellation(end: Callable[[], object]) -> Iterator[None]:
    """Call `end`, from any thread, if the work of this thread is cancelled within the context."""
    active, wait = _ACTIVE.get(), object()
    for cancellation in active:
        cancellation.add(wait, end)
    try:
        yield
    finally:
        for cancellation in active:
            cancellation.remove(wait)


def inherited(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function for another thread, which then works for the same as this one."""
    active = _ACTIVE.get()
    if not active:
        return function

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        token = _ACTIVE.set(active)
        try:
            return function(*args, **kwargs)
        finally:
            _ACTIVE.reset(token)

    return run
