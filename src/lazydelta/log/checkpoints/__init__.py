"""Checkpoints of any kind, and the `_last_checkpoint` hint."""

from __future__ import annotations

from lazydelta.log.checkpoints.checkpoint_reader import Checkpoint, open_checkpoint
from lazydelta.log.checkpoints.last_checkpoint import CheckpointHint, read_hint, write_hint
from lazydelta.log.checkpoints.leaf_reader import Leaf, LeafReader

__all__ = [
    "Checkpoint",
    "CheckpointHint",
    "Leaf",
    "LeafReader",
    "open_checkpoint",
    "read_hint",
    "write_hint",
]
