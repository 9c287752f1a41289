"""One version of a table, found and checked: where `log` and the protocol's rules meet."""

from __future__ import annotations

from lazydelta.snapshot.load import find_segment, load_snapshot, skip_damaged_checkpoint
from lazydelta.snapshot.state import BYTES_PER_ADD, Snapshot
from lazydelta.snapshot.time_travel import (
    file_times,
    parse_timestamp,
    read_history,
    version_at,
    version_since,
)

__all__ = [
    "BYTES_PER_ADD",
    "Snapshot",
    "file_times",
    "find_segment",
    "load_snapshot",
    "parse_timestamp",
    "read_history",
    "skip_damaged_checkpoint",
    "version_at",
    "version_since",
]
