"""Counters of a server, and their exposition in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from lazydelta.serving import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.serving.limits import Admission

__all__ = ["ServerMetrics"]

_COUNTERS = {
    "requests_total": "Answered requests, by protocol, route and status.",
    "scans_total": "Finished scans, by protocol, mode and outcome.",
    "rows_total": "Rows or file records sent, by protocol and mode.",
    "bytes_total": "Bytes of batches sent, by protocol and mode.",
    "rejected_total": "Requests refused before they reached a table, by reason.",
}
_HISTOGRAMS = {
    "first_batch_seconds": "Time from a request to its first batch, by protocol and mode.",
    "scan_seconds": "Time from a request to the end of its scan, by protocol and mode.",
}
_PREFIX = "lazydelta_serve_"


class ServerMetrics:
    """Counters and histograms with labels. Thread-safe.

    >>> metrics = ServerMetrics()
    >>> metrics.count("rows_total", 5, protocol="http", mode="rows")
    >>> print([line for line in metrics.text().splitlines() if "rows_total{" in line][0])
    lazydelta_serve_rows_total{protocol="http",mode="rows"} 5
    """

    def __init__(self, admission: Admission | None = None) -> None:
        self._admission = admission
        self._lock = threading.Lock()
        self._counters: dict[str, Counter[str]] = {name: Counter() for name in _COUNTERS}
        self._buckets: dict[str, Counter[tuple[str, float]]] = {n: Counter() for n in _HISTOGRAMS}
        self._sums: dict[str, Counter[str]] = {name: Counter() for name in _HISTOGRAMS}

    def count(self, name: str, amount: int = 1, /, **labels: object) -> None:
        """Add to a counter."""
        with self._lock:
            self._counters[name][_labels(labels)] += amount

    def observe(self, name: str, seconds: float, /, **labels: object) -> None:
        """Add a time to a histogram."""
        key = _labels(labels)
        bound = next((b for b in tuning.HISTOGRAM_SECONDS if seconds <= b), float("inf"))
        with self._lock:
            self._buckets[name][key, bound] += 1
            self._sums[name][key] += seconds  # type: ignore[assignment]

    def text(self) -> str:
        """Return all of them in the text format."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name, help_text in _COUNTERS.items():
            yield from _head(name, help_text, "counter")
            for labels, value in self._counters[name].items():
                yield f"{_PREFIX}{name}{{{labels}}} {value}"
        for name, help_text in _HISTOGRAMS.items():
            yield from _head(name, help_text, "histogram")
            for labels, total in self._sums[name].items():
                yield from self._histogram(name, labels, total)
        if self._admission is not None:
            for name, value, help_text in (
                ("scans_running", self._admission.running, "Scans that have a slot."),
                ("scans_waiting", self._admission.waiting, "Scans that wait for a slot."),
                ("draining", int(self._admission.draining), "Whether it is shutting down."),
            ):
                yield from _head(name, help_text, "gauge")
                yield f"{_PREFIX}{name} {value}"

    def _histogram(self, name: str, labels: str, total: float) -> Iterator[str]:
        count = 0
        for bound in (*tuning.HISTOGRAM_SECONDS, float("inf")):
            count += self._buckets[name][labels, bound]
            limit = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield f'{_PREFIX}{name}_bucket{{{labels},le="{limit}"}} {count}'
        yield f"{_PREFIX}{name}_sum{{{labels}}} {total:.6f}"
        yield f"{_PREFIX}{name}_count{{{labels}}} {count}"


def _head(name: str, help_text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {_PREFIX}{name} {help_text}", f"# TYPE {_PREFIX}{name} {kind}"


def _labels(labels: dict[str, object]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
