"""Post-commit hooks: the checksum; checkpoint, log compaction and log cleanup that may be due.

All are optional and can be written later, so a failure is a warning on a successful commit.
`Config` decides which of them run, table properties how often.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from lazydelta.checkpoint.checkpoint_writer import checkpoint_after, prefetch_checkpoint
from lazydelta.checkpoint.checksum_writer import write_checksum
from lazydelta.checkpoint.log_cleanup import clean_up_after
from lazydelta.checkpoint.log_compaction import compact_after
from lazydelta.protocol.features import unwritable_features

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.transaction import Committed, Hook

__all__ = ["post_commit_hooks"]


def post_commit_hooks(config: Config) -> tuple[Hook, ...]:
    """Return the hooks that a commit runs, in order."""
    hooks = (
        (config.write_checkpoints, prefetch_checkpoint),
        (config.write_checksums, write_checksum),
        (config.write_checkpoints, checkpoint_after),
        (config.write_compactions, compact_after),
        (config.clean_up_log, clean_up_after),
    )
    return tuple(_if_writable(hook) for is_enabled, hook in hooks if is_enabled)


def _if_writable(hook: Hook) -> Hook:
    """Skip tables with writer features that lazydelta does not support."""

    @wraps(hook)
    def run(committed: Committed) -> SnapshotState | None:
        base = committed.base
        protocol = committed.transaction.protocol or (None if base is None else base.protocol)
        if protocol is not None and not unwritable_features(protocol):
            return hook(committed)
        return None

    return run
