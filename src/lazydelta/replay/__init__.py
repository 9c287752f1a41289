"""What the log means: which files are live, and which of them can match. Pure, no I/O."""

from __future__ import annotations

from lazydelta.replay.batch_spool import BatchSpool
from lazydelta.replay.keys import file_keys
from lazydelta.replay.prune import Pruner
from lazydelta.replay.reconcile import Reconciler
from lazydelta.replay.reference_replay import ReferenceReplay
from lazydelta.replay.seen_files import SeenFiles
from lazydelta.replay.stats_values import map_values, trusted
from lazydelta.replay.tripwire import Trip, find_trip
from lazydelta.replay.zone_maps import read_zone_maps

__all__ = [
    "BatchSpool",
    "Pruner",
    "Reconciler",
    "ReferenceReplay",
    "SeenFiles",
    "Trip",
    "file_keys",
    "find_trip",
    "map_values",
    "read_zone_maps",
    "trusted",
]
