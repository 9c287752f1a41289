"""What the log means: which files are live, and which of them can match. Pure, no I/O."""

from __future__ import annotations

from lazydelta.replay.batch_spool import BatchSpool
from lazydelta.replay.keys import file_keys
from lazydelta.replay.prune import Pruner
from lazydelta.replay.reconcile import Reconciler
from lazydelta.replay.reference_replay import ReferenceReplay
from lazydelta.replay.seen_files import SeenFiles
from lazydelta.replay.stats_values import (
    ANY_CHARACTER,
    CUT_MICROS,
    is_rounded,
    is_string_only,
    json_path,
    map_values,
    trusted,
)
from lazydelta.replay.tripwire import Trip, find_trip
from lazydelta.replay.zone_maps import read_zone_maps

__all__ = [
    "ANY_CHARACTER",
    "CUT_MICROS",
    "BatchSpool",
    "Pruner",
    "Reconciler",
    "ReferenceReplay",
    "SeenFiles",
    "Trip",
    "file_keys",
    "find_trip",
    "is_rounded",
    "is_string_only",
    "json_path",
    "map_values",
    "read_zone_maps",
    "trusted",
]
