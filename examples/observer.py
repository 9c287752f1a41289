"""Metrics for a dashboard: an observer that exports them for Prometheus, without a dependency.

`Config.observer` receives an event when an operation ends. This one adds up counters and prints
them in the text format of Prometheus.

    python examples/observer.py [URL]
"""

from __future__ import annotations

import sys
import threading
from collections import Counter

from sample_table import table_to_show

import lazydelta as ld
from lazydelta.metrics import Event, FallbackTriggered, ReadFinished, ScanFinished, StoreCalled


class Totals:
    """Adds up events; scans in several threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()

    def __call__(self, event: Event, /) -> None:
        """Receive an event."""
        with self._lock:
            if isinstance(event, StoreCalled):
                self._totals[f'lazydelta_store_requests{{operation="{event.operation}"}}'] += (
                    event.requests
                )
                self._totals["lazydelta_store_bytes"] += event.bytes
            elif isinstance(event, ScanFinished):
                self._totals[f'lazydelta_scans{{strategy="{event.strategy}"}}'] += 1
                for name in ("delta.lazy.files_emitted", "delta.lazy.commits_scanned"):
                    self._totals[name.replace(".", "_")] += int(event.metrics[name])
            elif isinstance(event, ReadFinished):
                for name in ("rows", "batches", "bytes"):
                    self._totals[f'lazydelta_feed_{name}{{kind="{event.kind}"}}'] += getattr(
                        event, name
                    )
            elif isinstance(event, FallbackTriggered):
                self._totals["delta_lazy_fallback_triggered"] += 1

    def text(self) -> str:
        """Return the totals in the text format of Prometheus."""
        with self._lock:
            return "\n".join(f"{name} {total}" for name, total in sorted(self._totals.items()))


with table_to_show(sys.argv) as url:
    totals = Totals()
    table = ld.Table.open(url, config=ld.Config(observer=totals))
    for limit in (5, None):
        for _ in table.scan().file_batches(limit=limit):
            pass
    print(totals.text())
