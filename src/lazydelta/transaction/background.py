"""Post-commit hooks after the caller has its answer: one thread of the process, in order.

The hooks of a commit run after those of the commits before it, so that a checksum finds its
predecessor. The queue is bounded: a writer that outruns the store waits.
"""

from __future__ import annotations

import atexit
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lazydelta.transaction import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["flush", "submit"]


class _Worker:
    """The thread of one process; a forked child has its own."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="lazydelta-post-commit")
        self._slots = threading.BoundedSemaphore(tuning.PENDING_COMMITS)

    def submit(self, run: Callable[[], object]) -> None:
        self._slots.acquire()
        self._pool.submit(run).add_done_callback(lambda _: self._slots.release())

    def flush(self) -> None:
        self._pool.submit(int).result()


_worker: _Worker | None = None
_lock = threading.Lock()


def submit(run: Callable[[], object]) -> None:
    """Run a call that does not raise, after those submitted before it."""
    global _worker  # noqa: PLW0603 - one queue for the process
    with _lock:
        if _worker is None or _worker.process != os.getpid():
            _worker = _Worker()
        worker = _worker
    worker.submit(run)


def flush() -> None:
    """Wait until everything submitted so far has run."""
    worker = _worker
    if worker is not None and worker.process == os.getpid():
        worker.flush()


# Hooks use thread pools, which refuse work once the interpreter shuts them down. That happens
# before functions of `atexit` run, in the reverse order of registration.
getattr(threading, "_register_atexit", atexit.register)(flush)
