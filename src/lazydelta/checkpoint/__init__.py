"""Checkpoints, version checksums and log compactions.

They are written from a `FullReplay` of a whole log segment, or updated from the previous version.
All are derived and optional: if writing one fails, the commits still define the table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazydelta.checkpoint.checkpoint_writer import CheckpointResult, write_checkpoint
    from lazydelta.checkpoint.hooks import post_commit_hooks
    from lazydelta.checkpoint.log_compaction import CompactionResult, compact_log

__all__ = [
    "CheckpointResult",
    "CompactionResult",
    "compact_log",
    "post_commit_hooks",
    "write_checkpoint",
]

_MODULES = {
    "CheckpointResult": "checkpoint_writer",
    "CompactionResult": "log_compaction",
    "compact_log": "log_compaction",
    "post_commit_hooks": "hooks",
    "write_checkpoint": "checkpoint_writer",
}


def __getattr__(name: str) -> Any:
    """Import the module that defines a name on first use: readers do not load writers."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__package__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
