"""Checkpoints, version checksums and log compactions.

They are written from a `FullReplay` of a whole log segment, or updated from the previous version.
All are derived and optional: if writing one fails, the commits still define the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.checkpoint.checkpoint_writer import CheckpointResult, write_checkpoint
    from lazydelta.checkpoint.full_replay import checkpoint_removes
    from lazydelta.checkpoint.hooks import post_commit_hooks
    from lazydelta.checkpoint.log_cleanup import LogCleanupResult, clean_up_log
    from lazydelta.checkpoint.log_compaction import CompactionResult, compact_log

__all__ = [
    "CheckpointResult",
    "CompactionResult",
    "LogCleanupResult",
    "checkpoint_removes",
    "clean_up_log",
    "compact_log",
    "post_commit_hooks",
    "write_checkpoint",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "checkpoint_writer": ("CheckpointResult", "write_checkpoint"),
        "full_replay": ("checkpoint_removes",),
        "hooks": ("post_commit_hooks",),
        "log_cleanup": ("LogCleanupResult", "clean_up_log"),
        "log_compaction": ("CompactionResult", "compact_log"),
    },
)
