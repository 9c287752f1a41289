"""What an operation counted, and the observer that is told when it ends.

Counters are plain numbers updated once per batch; an `Observer` gets frozen events. Exporting
them to Prometheus or OpenTelemetry is the observer's business, so neither is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

__all__ = [
    "Event",
    "FallbackTriggered",
    "FeedFinished",
    "Observer",
    "ScanFinished",
    "SegmentListed",
    "StoreCalled",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCalled:
    """One call to an object store."""

    operation: str  # "list" | "read" | "write" | "delete" | "head"
    path: str
    requests: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentListed:
    """A log segment was chosen for a version."""

    table: str
    version: int
    checkpoint_version: int | None
    commits: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackTriggered:
    """The lazy scan handed over to the reference replay."""

    table: str
    version: int
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFinished:
    """A file scan ended, was stopped or failed; `metrics` has the `delta.lazy.*` names."""

    table: str
    version: int
    strategy: str
    complete: bool
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFinished:
    """Rows were handed out: to the end (`complete`), or until they failed or were left.

    Times run from the first request for rows, so `seconds` includes what the consumer took.
    """

    table: str
    version: int  # of a change feed, its last one
    kind: Literal["rows", "changes"]
    rows: int
    batches: int
    bytes: int
    first_batch_seconds: float | None
    seconds: float
    complete: bool


Event = StoreCalled | SegmentListed | FallbackTriggered | ScanFinished | FeedFinished


class Observer(Protocol):
    """Anything callable with an event; it must not raise and should return quickly."""

    def __call__(self, event: Event, /) -> None:
        """Take notice of `event`."""
