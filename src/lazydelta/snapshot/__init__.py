"""One version of a table, found and checked: where `log` and the protocol's rules meet."""

from __future__ import annotations

from lazydelta.snapshot.load import find_segment, load_snapshot, round_damage
from lazydelta.snapshot.state import BYTES_PER_ADD, Snapshot
from lazydelta.snapshot.travel import (
    as_moment,
    file_times,
    read_history,
    version_at,
    version_since,
)

__all__ = [
    "BYTES_PER_ADD",
    "Snapshot",
    "as_moment",
    "file_times",
    "find_segment",
    "load_snapshot",
    "read_history",
    "round_damage",
    "version_at",
    "version_since",
]
