"""Limits of a server, and the admission of scans within them.

A scan occupies a slot. Beyond the slots a bounded number of scans waits, and beyond the queue, or
the quota of a principal, a scan is refused at once.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from lazydelta.config import validate_integer
from lazydelta.errors import ConfigError, OverloadedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazydelta.serving.principal import Principal

__all__ = ["Admission", "Limits", "Slot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one server gives its clients at most."""

    scans: int = 64
    """Scans that run at the same time."""
    queue: int = 256
    """Scans that wait for a slot; more are refused at once."""
    queue_seconds: float = 10.0
    """How long one waits before it is refused."""
    threads: int = 16
    """Threads that read for the scans of the HTTP server; each batch is read by one of them."""
    scans_per_principal: int = 64
    """Scans of one principal that run or wait."""
    scan_seconds: float = 900.0
    """Deadline of a scan; the client continues with its resume token."""
    stall_seconds: float = 120.0
    """How long a client may leave a batch unread before its scan ends."""
    batch_files: int = 2048
    """Maximum number of files of a batch."""
    batch_rows: int = 65_536
    """Maximum number of rows of a batch."""
    scan_memory: int = 32 * 1024 * 1024
    """Bytes of decoded rows that one scan may buffer, beside the batch in delivery."""
    sql_queries: int = 4
    """SQL queries over Flight that run at the same time; 0 refuses them."""
    sql_memory: int = 256 * 1024 * 1024
    """Bytes that the engine of a SQL query may use."""
    request_bytes: int = 65_536
    """Maximum size of a request: address and headers, or a Flight command."""
    connections: int = 1024
    """Maximum number of connections over HTTP."""
    handshake_seconds: float = 20.0
    """How long an HTTP connection may stay without a request."""
    failed_logins: int = 30
    """Invalid credentials per address and minute; beyond them HTTP requests are refused unread."""
    drain_seconds: float = 30.0
    """How long running scans may continue after SIGTERM."""

    def __post_init__(self) -> None:
        """Validate the values."""
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type == "int":
                least = 0 if item.name in ("queue", "sql_queries") else 1
                validate_integer(f"limits.{item.name}", value, least)
            elif isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"limits.{item.name}", f"must be more than 0, not {value!r}")


class Slot:
    """The right to run one scan, until `release()`."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release
        self._lock = threading.Lock()

    def release(self) -> None:
        """Give the slot back; a second call does nothing."""
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()


class Admission:
    """Slots for scans. Thread-safe; asynchronous callers use `request`, others `slot`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[tuple[Future[Slot], str]] = deque()
        self._scans: Counter[str] = Counter()  # running and waiting, by principal
        self._draining = False

    @property
    def running(self) -> int:
        """Scans that have a slot."""
        return self._running

    @property
    def waiting(self) -> int:
        """Scans that wait for one."""
        return len(self._waiting)

    @property
    def draining(self) -> bool:
        """Whether the server is shutting down."""
        return self._draining

    def drain(self) -> None:
        """Refuse new and waiting scans from now on; running ones continue."""
        with self._lock:
            self._draining = True
            waiting, self._waiting = list(self._waiting), deque()
        for future, principal in waiting:
            self._forget(principal)
            if future.set_running_or_notify_cancel():
                future.set_exception(_draining())

    def request(self, principal: Principal) -> Future[Slot]:
        """Return the future of a slot; cancelling it leaves the queue.

        Raises:
            OverloadedError: The queue or the principal's quota is full, or the server is stopping.
        """
        future: Future[Slot] = Future()
        with self._lock:
            if self._draining:
                raise _draining()
            if self._scans[principal.name] >= self._limits.scans_per_principal:
                quota = self._limits.scans_per_principal
                raise OverloadedError(f"you have {quota} scans, the server's limit for a client")
            free = self._running < self._limits.scans
            if not free and len(self._waiting) >= self._limits.queue:
                raise OverloadedError(
                    f"the server runs {self._running} scans, and {len(self._waiting)} wait"
                )
            self._scans[principal.name] += 1
            if free:
                self._running += 1
            else:
                self._waiting.append((future, principal.name))
        if free:
            future.set_result(self._slot(principal.name))
        else:
            future.add_done_callback(lambda done: self._cancelled(done, principal.name))
        return future

    @contextmanager
    def slot(self, principal: Principal) -> Iterator[Slot]:
        """Wait for a slot, and release it at the end of the block.

        Raises:
            OverloadedError: There is none within `limits.queue_seconds`.
        """
        slot = self.wait(principal)
        try:
            yield slot
        finally:
            slot.release()

    def wait(self, principal: Principal) -> Slot:
        """Wait for a slot; the caller releases it."""
        future = self.request(principal)
        try:
            return future.result(self._limits.queue_seconds)
        except TimeoutError:
            if future.cancel():
                raise self.timed_out() from None
            return future.result()  # it was granted at this moment

    def timed_out(self) -> OverloadedError:
        """Return the error of a scan that waited too long."""
        waited = self._limits.queue_seconds
        return OverloadedError(f"no scan ended within {waited:g} s, so this one could not start")

    def _slot(self, principal: str) -> Slot:
        return Slot(lambda: self._released(principal))

    def _released(self, principal: str) -> None:
        self._forget(principal)
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                future, name = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                future.set_result(self._slot(name))
                return

    def _cancelled(self, future: Future[Slot], principal: str) -> None:
        if not future.cancelled():
            return
        with self._lock, suppress(ValueError):
            self._waiting.remove((future, principal))
        self._forget(principal)

    def _forget(self, principal: str) -> None:
        with self._lock:
            self._scans[principal] -= 1
            if self._scans[principal] <= 0:
                del self._scans[principal]


def _draining() -> OverloadedError:
    return OverloadedError("the server is shutting down", draining=True)
