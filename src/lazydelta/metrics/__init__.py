"""Events of operations, and the observer that receives them.

Counters are updated once per batch; an `Observer` receives frozen events. An observer may export
them to Prometheus or OpenTelemetry, so neither is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.metrics.events import (
        Event,
        FallbackTriggered,
        ReadFinished,
        RowsChanged,
        ScanFinished,
        SegmentListed,
        StoreCalled,
    )
    from lazydelta.metrics.observers import Observer, notify

__all__ = [
    "Event",
    "FallbackTriggered",
    "Observer",
    "ReadFinished",
    "RowsChanged",
    "ScanFinished",
    "SegmentListed",
    "StoreCalled",
    "notify",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "events": (
            "Event",
            "FallbackTriggered",
            "ReadFinished",
            "RowsChanged",
            "ScanFinished",
            "SegmentListed",
            "StoreCalled",
        ),
        "observers": ("Observer", "notify"),
    },
)
