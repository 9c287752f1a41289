"""What the log means: which files are live, and which of them can match. Pure, no I/O."""

from __future__ import annotations

from lazydelta.replay.facts import (
    ANY_CHARACTER,
    CUT_MICROS,
    is_rounded,
    is_text_only,
    json_path,
    map_values,
    trusted,
)
from lazydelta.replay.keys import file_keys
from lazydelta.replay.prune import Pruner
from lazydelta.replay.reconcile import Reconciler
from lazydelta.replay.reference import ReferenceReplay
from lazydelta.replay.remove_set import RemoveSet
from lazydelta.replay.spool import BatchSpool
from lazydelta.replay.tripwire import Trip, find_trip
from lazydelta.replay.zones import read_zones

__all__ = [
    "ANY_CHARACTER",
    "CUT_MICROS",
    "BatchSpool",
    "Pruner",
    "Reconciler",
    "ReferenceReplay",
    "RemoveSet",
    "Trip",
    "file_keys",
    "find_trip",
    "is_rounded",
    "is_text_only",
    "json_path",
    "map_values",
    "read_zones",
    "trusted",
]
