"""Data skipping: prune files, row groups and sidecars by partition values and statistics."""

from __future__ import annotations

from lazydelta.replay.skipping.column_bounds import ColumnBounds, file_bounds
from lazydelta.replay.skipping.file_stats import map_values, sanitize_stats
from lazydelta.replay.skipping.pruner import Pruner
from lazydelta.replay.skipping.zone_maps import read_zone_maps

__all__ = [
    "ColumnBounds",
    "Pruner",
    "file_bounds",
    "map_values",
    "read_zone_maps",
    "sanitize_stats",
]
