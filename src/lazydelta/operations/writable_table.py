"""Whether this engine may write a table: its features, its newest commit and its log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.log import LOG_DIRECTORY
from lazydelta.protocol.features import unsupported_error, unwritable_features
from lazydelta.store import check_writable
from lazydelta.transaction import validate_newest_commit

if TYPE_CHECKING:
    from lazydelta.snapshot import SnapshotState

__all__ = ["validate_writable"]


def validate_writable(snapshot: SnapshotState, *, dry_run: bool = False) -> None:
    """Validate that an operation can commit to a table, before it writes files.

    Args:
        snapshot: The newest version.
        dry_run: Whether the operation commits nothing, so that the log may be read-only.

    Raises:
        UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
    """
    root = snapshot.store.root
    if features := unwritable_features(snapshot.protocol):
        raise unsupported_error(root, features, "write")
    validate_newest_commit(snapshot)
    if not dry_run:
        check_writable(snapshot.store, LOG_DIRECTORY)
