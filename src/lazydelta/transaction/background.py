"""Post-commit hooks after the caller has its answer: one thread of the process, in order.

The hooks of a commit run after those of the commits before it, so that a checksum finds its
predecessor. The queue is bounded: a writer that outruns the store waits. The thread ends when the
queue is empty.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from typing import TYPE_CHECKING

from lazydelta.transaction import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["flush", "submit"]

logger = logging.getLogger(__name__)


class _Queue:
    """Calls that run one after another, in a thread that lives as long as there are any."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._pending: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()

    def submit(self, run: Callable[[], object]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._pending) < tuning.PENDING_COMMITS)
            self._pending.append(run)
            if len(self._pending) == 1:
                name = "lazydelta-post-commit"
                threading.Thread(target=self._drain, name=name, daemon=True).start()

    def flush(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._pending)

    def _drain(self) -> None:
        while True:
            try:
                self._pending[0]()
            except BaseException:
                logger.exception("post-commit hooks failed")
            with self._changed:
                self._pending.popleft()
                self._changed.notify_all()
                if not self._pending:
                    return


_queue = _Queue()
_lock = threading.Lock()


def submit(run: Callable[[], object]) -> None:
    """Run a call after those submitted before it; waits while too many are pending."""
    _own_queue().submit(run)


def flush() -> None:
    """Wait until everything submitted so far has run."""
    _own_queue().flush()


def _own_queue() -> _Queue:
    """Return the queue of this process: the thread of a parent does not exist in its child."""
    global _queue  # noqa: PLW0603 - one queue for the process
    with _lock:
        if _queue.process != os.getpid():
            _queue = _Queue()
        return _queue


# Hooks use thread pools, which refuse work once the interpreter shuts them down. That happens
# before functions of `atexit` run, in the reverse order of registration.
getattr(threading, "_register_atexit", atexit.register)(flush)
