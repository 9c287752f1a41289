"""Snapshots, time travel and history."""

from __future__ import annotations

from lazydelta.snapshot.load import load_snapshot
from lazydelta.snapshot.segment_search import find_segment, undamaged_segment
from lazydelta.snapshot.snapshot_state import SnapshotState, skip_damaged_checkpoint
from lazydelta.snapshot.time_travel import (
    HistoryEntry,
    file_times,
    parse_timestamp,
    read_history,
    version_at,
    version_since,
)
from lazydelta.snapshot.tuning import BYTES_PER_ADD

__all__ = [
    "BYTES_PER_ADD",
    "HistoryEntry",
    "SnapshotState",
    "file_times",
    "find_segment",
    "load_snapshot",
    "parse_timestamp",
    "read_history",
    "skip_damaged_checkpoint",
    "undamaged_segment",
    "version_at",
    "version_since",
]
