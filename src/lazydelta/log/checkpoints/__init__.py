"""Checkpoints of any kind, and the `_last_checkpoint` hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.log.checkpoints.checkpoint_reader import Checkpoint, open_checkpoint
    from lazydelta.log.checkpoints.last_checkpoint import (
        CheckpointHint,
        has_hint,
        read_hint,
        write_hint,
    )
    from lazydelta.log.checkpoints.leaf_reader import Leaf, LeafReader

__all__ = [
    "Checkpoint",
    "CheckpointHint",
    "Leaf",
    "LeafReader",
    "has_hint",
    "open_checkpoint",
    "read_hint",
    "write_hint",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "checkpoint_reader": ("Checkpoint", "open_checkpoint"),
        "last_checkpoint": ("CheckpointHint", "has_hint", "read_hint", "write_hint"),
        "leaf_reader": ("Leaf", "LeafReader"),
    },
)
