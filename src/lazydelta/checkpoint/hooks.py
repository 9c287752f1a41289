"""What follows a commit: its `.crc`, and the checkpoint and the compaction that may be due.

The commit stands whatever becomes of these, and each can be done later by anybody; so a failure
here is a warning on a success. Which of them run is said by `Config`, how often by the table.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from lazydelta.checkpoint.checkpoint_writer import checkpoint_after
from lazydelta.checkpoint.checksum_writer import write_checksum
from lazydelta.checkpoint.log_compaction import compact_after
from lazydelta.protocol.features import unwritable_features

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.transaction import Committed, Hook

__all__ = ["post_commit_hooks"]


def post_commit_hooks(config: Config) -> tuple[Hook, ...]:
    """Return the hooks that a commit under this configuration runs, in their order."""
    asked = (
        (config.write_checksums, write_checksum),
        (config.write_checkpoints, checkpoint_after),
        (config.write_compactions, compact_after),
    )
    return tuple(_if_writable(hook) for is_asked, hook in asked if is_asked)


def _if_writable(hook: Hook) -> Hook:
    """Leave a table alone whose protocol asks more of writers than this engine does."""

    @wraps(hook)
    def run(committed: Committed) -> None:
        base = committed.base
        protocol = committed.transaction.protocol or (None if base is None else base.protocol)
        if protocol is not None and not unwritable_features(protocol):
            hook(committed)

    return run
