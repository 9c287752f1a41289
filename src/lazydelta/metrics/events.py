"""The events that an observer receives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Event",
    "FallbackTriggered",
    "ReadFinished",
    "RowsChanged",
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
    depth: int = 1
    """Dependency depth: its place in the longest chain of calls that waited for each other."""


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
    """The lazy scan fell back to the reference replay."""

    table: str
    version: int
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFinished:
    """A file scan finished, was closed early or failed; `metrics` has the `delta.lazy.*` names."""

    table: str
    version: int
    strategy: str
    complete: bool
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFinished:
    """A read of rows finished (`complete`), was closed early or failed.

    Times start at the first request for rows, so `seconds` includes the time of the consumer.
    """

    table: str
    version: int  # of a change feed: its last version
    kind: Literal["rows", "changes"]
    rows: int
    batches: int
    bytes: int
    first_batch_seconds: float | None
    seconds: float
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChanged:
    """DELETE, UPDATE or MERGE finished. One that failed sends no event."""

    table: str
    version: int
    operation: str
    committed: bool
    """Whether there is a new version: not in a dry run, nor without a matching row."""
    seconds: float
    metrics: dict[str, int] = field(default_factory=dict)
    """As in the result of the operation."""


Event = StoreCalled | SegmentListed | FallbackTriggered | ScanFinished | ReadFinished | RowsChanged
