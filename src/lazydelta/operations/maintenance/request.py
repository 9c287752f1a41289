"""The table that a maintenance verb works on: newest version, checks and commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazydelta.checkpoint import post_commit_hooks
from lazydelta.log import LOG_DIRECTORY
from lazydelta.protocol.features import unsupported_error, unwritable_features
from lazydelta.snapshot import load_snapshot
from lazydelta.store import check_writable
from lazydelta.transaction import check_user_metadata, commit, validate_newest_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import CommitResult, Transaction

__all__ = ["Maintained"]


@dataclass(kw_only=True)
class Maintained:
    """The table that a verb maintains."""

    store: Store
    config: Config
    commit_metadata: Mapping[str, Any] = field(default_factory=dict)
    """User metadata of the verb's commits."""
    known: SnapshotState | None = None
    """The last snapshot that the caller has of the table; may be outdated."""
    remember: Callable[[SnapshotState | None], None] = lambda _: None
    """Receives the committed snapshot, or None if it is not known."""

    def newest(self, *, dry_run: bool) -> SnapshotState:
        """Return the newest version, if this engine may write it.

        The check is what the table feature `vacuumProtocolCheck` requires, and is made for every
        table.

        Raises:
            UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
        """
        check_user_metadata(self.commit_metadata, self.store.root)
        snapshot = load_snapshot(self.store, self.config, previous=self.known)
        if features := unwritable_features(snapshot.protocol):
            raise unsupported_error(self.store.root, features, "write")
        if not dry_run:
            validate_newest_commit(snapshot)
            check_writable(self.store, LOG_DIRECTORY)
        return snapshot

    def commit(self, transaction: Transaction, base: SnapshotState) -> CommitResult:
        """Commit a transaction that was planned on a snapshot, and run the post-commit hooks."""
        done = commit(
            transaction,
            store=self.store,
            config=self.config,
            base=base,
            hooks=post_commit_hooks(self.config),
        )
        self.remember(done.snapshot)
        return done
