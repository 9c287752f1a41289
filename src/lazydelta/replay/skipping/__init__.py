"""Data skipping: prune files, row groups and sidecars by partition values and statistics."""

from __future__ import annotations

from lazydelta.replay.skipping.file_stats import (
    FileStats,
    map_values,
    physical_paths,
    sanitize_stats,
)
from lazydelta.replay.skipping.pruner import Pruner
from lazydelta.replay.skipping.zone_maps import read_zone_maps

__all__ = [
    "FileStats",
    "Pruner",
    "map_values",
    "physical_paths",
    "read_zone_maps",
    "sanitize_stats",
]
