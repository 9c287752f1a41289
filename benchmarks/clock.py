"""What one run measures: its sample, the clock that fills it in, and an account of requests.

Imports nothing heavy: a child process loads this before it times its imports.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Clock", "Operation", "Sample", "count_batches"]


@dataclass(slots=True, kw_only=True)
class Sample:
    """One measured run; times in seconds, memory in bytes."""

    count: int = -1
    import_seconds: float = 0.0
    first_seconds: float = 0.0
    total_seconds: float = 0.0
    base_rss: int = 0
    peak_rss: int = 0
    read_bytes: int = 0
    read_calls: int = 0
    requests: int = 0
    request_bytes: int = 0
    error: str = ""


class _Account:
    """An observer of lazydelta that adds up its requests to the store."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def __call__(self, event: Any) -> None:
        """Add one call; other events have no `requests`."""
        self.requests += getattr(event, "requests", 0)
        self.bytes += getattr(event, "bytes", 0)


class Clock:
    """Times an operation from its construction.

    `first` is called when a file or a row is there, `last` when all are, if there is more to be
    done after that: to let go of two gigabytes takes a twentieth of the time to read them, and is
    no part of it.
    """

    def __init__(self, *, accounting: bool) -> None:
        self.start = time.perf_counter()
        self.first_seconds = 0.0
        self._last_seconds = 0.0
        self.accounting = accounting
        self.account = _Account()

    def first(self) -> None:
        """Note the time, the first time."""
        self.first_seconds = self.first_seconds or time.perf_counter() - self.start

    def last(self) -> None:
        """Note the time."""
        self._last_seconds = time.perf_counter() - self.start

    @property
    def total_seconds(self) -> float:
        """What the operation took: until `last`, or until now."""
        return self._last_seconds or time.perf_counter() - self.start


def count_batches(batches: Iterator[Any], clock: Clock) -> int:
    """Return how many rows the batches have; none of them is kept."""
    rows = 0
    for batch in batches:
        clock.first()
        rows += batch.num_rows
    return rows


Operation = Callable[[str, Clock], int]
"""Given the table's path, does what is measured and returns a count that can be checked."""
