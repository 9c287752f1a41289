"""Log replay: reconcile file actions into the live files of a version. No I/O on the table."""

from __future__ import annotations

from lazydelta.replay.action_keys import file_keys, hash_keys, new_seed
from lazydelta.replay.batch_spool import BatchSpool
from lazydelta.replay.path_digests import PathDigests
from lazydelta.replay.reconcile import Reconciler
from lazydelta.replay.reference_replay import ReferenceReplay
from lazydelta.replay.seen_files import SeenFiles
from lazydelta.replay.tripwire import Trip, find_trip

__all__ = [
    "BatchSpool",
    "PathDigests",
    "Reconciler",
    "ReferenceReplay",
    "SeenFiles",
    "Trip",
    "file_keys",
    "find_trip",
    "hash_keys",
    "new_seed",
]
