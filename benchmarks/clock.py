"""Measurements of one run: the sample, the clock that fills it, and the request counter.

Imports nothing heavy: a child process loads this before it times its imports.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "OPTIONS_VARIABLE",
    "Clock",
    "Operation",
    "Sample",
    "count_batches",
    "load_lazydelta",
    "storage_options",
]

OPTIONS_VARIABLE = "BENCHMARK_STORAGE_OPTIONS"
"""Environment variable with the storage options that every engine gets, as JSON."""


_LAZY_DOORS = (
    *("errors", "metrics", "schema", "protocol", "formats", "expressions", "expressions.nodes"),
    *("parquet", "parquet.footer", "log.checkpoints", "checkpoint"),
    *("scan", "scan.plan", "scan.read", "scan.aggregates"),
)


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
    """An observer of lazydelta that sums its requests to the store."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def __call__(self, event: Any) -> None:
        """Add one call; other events have no `requests`."""
        self.requests += getattr(event, "requests", 0)
        self.bytes += getattr(event, "bytes", 0)


class Clock:
    """Times an operation from its construction.

    `first` is called at the first file or row, `last` at the last one if work follows that is not
    measured: freeing two gigabytes takes a twentieth of the time to read them.
    """

    def __init__(self, *, accounting: bool) -> None:
        self.start = time.perf_counter()
        self.first_seconds = 0.0
        self._last_seconds = 0.0
        self.accounting = accounting
        self.account = _Account()

    def first(self) -> None:
        """Record the time of the first call."""
        self.first_seconds = self.first_seconds or time.perf_counter() - self.start

    def last(self) -> None:
        """Record the time."""
        self._last_seconds = time.perf_counter() - self.start

    @property
    def total_seconds(self) -> float:
        """Duration of the operation: until `last`, or until now."""
        return self._last_seconds or time.perf_counter() - self.start


def storage_options() -> dict[str, str] | None:
    """Return the storage options of the table, if the environment has them."""
    options: dict[str, str] | None = json.loads(os.environ.get(OPTIONS_VARIABLE, "null"))
    return options


def load_lazydelta() -> None:
    """Import the modules that reads and checkpoints use.

    lazydelta loads them on first use. Peers load theirs on import, which is not measured.
    """
    importlib.import_module("lazydelta.table")
    remote = ("store.cloud",) if OPTIONS_VARIABLE in os.environ else ()
    for name in (*_LAZY_DOORS, *remote):
        door = importlib.import_module(f"lazydelta.{name}")
        for exported in door.__all__:
            getattr(door, exported)


def count_batches(batches: Iterator[Any], clock: Clock) -> int:
    """Return the number of rows of the batches, without keeping any."""
    rows = 0
    for batch in batches:
        clock.first()
        rows += batch.num_rows
    return rows


Operation = Callable[[str, Clock], int]
"""Takes the table's path, runs the measured operation and returns a count to check."""
