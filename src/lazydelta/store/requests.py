"""Run requests on an event loop: attempt timeouts, hedged requests, cancellation.

The asynchronous API of obstore is used because a request that waits can be cancelled, which the
synchronous one does not allow. The loop runs in one daemon thread per process.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from lazydelta.errors import StoreError, TransientStoreError
from lazydelta.store import tuning
from lazydelta.store.deadlines import remaining_seconds

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
    """Run a coroutine on the loop and wait for it; an interrupt of the caller cancels it."""
    try:
        check_fork()
    except StoreError:
        request.close()
        raise
    future = asyncio.run_coroutine_threadsafe(request, _loop())
    try:
        return future.result()
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
    first = asyncio.ensure_future(request(answer))
    tasks = [first]
    try:
        await asyncio.wait(tasks, timeout=tuning.HEDGE_AFTER_SECONDS)
        if not first.done() and not answer.is_long:
            tasks.append(asyncio.ensure_future(request(Answer())))
        pending = set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not isinstance(task.exception(), TransientStoreError):
                    return task.result()
        return first.result()
    finally:
        for task in tasks:
            task.cancel()
            task.add_done_callback(_retrieve_error)


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve a loser's error, which asyncio would log, with the signed URL in it."""
    if not task.cancelled():
        task.exception()
