"""Run requests on an event loop: attempt timeouts, hedged requests, cancellation.

The asynchronous API of obstore is used because a request that waits can be cancelled, which the
synchronous one does not allow. The loop runs in one daemon thread per process.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lazydelta._cancellation import ended_by_cancellation
from lazydelta.errors import StoreError, TransientStoreError
from lazydelta.store import tuning
from lazydelta.store.deadlines import check_cancelled, remaining_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Answer", "attempt_timeout", "check_fork", "hedged", "run"]

R = TypeVar("R")


class Answer:
    """What is known of an answer while its body still arrives."""

    is_long = False
    """Whether its body is so long that a second request would only share its bandwidth."""


class _ForkGuard:
    """Detects a forked child: neither the loop's thread nor those of obstore survive `fork()`."""

    used = False
    forked_after_use = False

    @classmethod
    def after_fork(cls) -> None:
        cls.forked_after_use = cls.used


os.register_at_fork(after_in_child=_ForkGuard.after_fork)


def check_fork() -> None:
    """Raise an error in a forked process, where requests would hang."""
    if _ForkGuard.forked_after_use:
        raise StoreError(
            "this process",
            "was forked after its parent had used an object store, which is not supported: "
            "start processes with the 'spawn' or 'forkserver' method",
        )
    _ForkGuard.used = True


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="lazydelta-requests", daemon=True).start()
    return loop


def run(request: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on the loop and wait for it; an interrupt of the caller cancels it.

    Raises:
        ScanCancelledError: The work of this thread was cancelled.
    """
    try:
        check_fork()
    except StoreError:
        request.close()
        raise
    future = asyncio.run_coroutine_threadsafe(request, _loop())
    try:
        with ended_by_cancellation(future.cancel):
            return future.result()
    except CancelledError:
        check_cancelled()
        raise
    except BaseException:
        future.cancel()
        raise


def attempt_timeout(more_seconds: float = 0.0) -> asyncio.Timeout:
    """Return the timeout of one attempt; `more_seconds` are for the bytes that it sends."""
    return asyncio.timeout(min(tuning.ATTEMPT_SECONDS, remaining_seconds()) + more_seconds)


async def hedged(request: Callable[[Answer], Coroutine[Any, Any, R]]) -> R:
    """Send a request, and a second one if the first has no answer after a while.

    The first success or permanent error wins, and the other request is cancelled.
    """
    answer = Answer()
    second = _SecondRequest(request, answer)
    try:
        return await request(answer)
    except asyncio.CancelledError:
        if second.task is None or not second.withdraw_cancellation():
            raise
        return second.task.result()
    except TransientStoreError:
        if second.task is None:
            raise
        second.first = None
        return await second.task
    finally:
        second.cancel()


class _SecondRequest(Generic[R]):
    """The second request of a hedged one; if it wins, it cancels the task of the first.

    The first runs in the task of its caller, because each further task costs a small read more
    time than the rest of its handling.
    """

    def __init__(self, request: Callable[[Answer], Coroutine[Any, Any, R]], answer: Answer) -> None:
        self._request = request
        self._answer = answer
        self._timer = asyncio.get_running_loop().call_later(tuning.HEDGE_AFTER_SECONDS, self._send)
        self.first = asyncio.current_task()
        self.task: asyncio.Task[R] | None = None
        self._has_won = False

    def _send(self) -> None:
        if not self._answer.is_long:
            self.task = asyncio.ensure_future(self._request(Answer()))
            self.task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[R]) -> None:
        # An error that is not retrieved would be logged, with the signed URL in it.
        if task.cancelled() or isinstance(task.exception(), TransientStoreError):
            return
        if self.first is not None:
            self._has_won = True
            self.first.cancel()

    def withdraw_cancellation(self) -> bool:
        """Whether it has won, and no caller has cancelled the first request as well."""
        return self._has_won and self.first is not None and self.first.uncancel() == 0

    def cancel(self) -> None:
        """End the second request, whether or not it was sent."""
        self._timer.cancel()
        self.first = None
        if self.task is not None:
            self.task.cancel()
