"""What a commit returns, passes to its hooks and reports to its observer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction.transaction import Transaction
    from lazydelta.transaction.winning_commit import WinningCommit

__all__ = ["CommitResult", "Committed", "Hook", "Phase", "Rebase", "TxnObserver"]

Phase = Literal["start", "prepared", "put", "lost", "rebased", "committed", "finished"]
"""Phases of a commit: started; serialized for a version; about to put that version; lost it to
another writer; rebased on the winning commits; committed; hooks have run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The outcome of a transaction."""

    version: int
    """The committed version, or the version that shows an earlier commit of it."""
    txn_id: str
    attempts: int
    """How many times a version was put."""
    already_applied: bool
    """Whether the application transaction was committed before, so that nothing was done."""
    timestamp_ms: int
    """The commit timestamp."""
    warnings: tuple[str, ...] = ()
    """Errors of post-commit hooks that the commit waited for; it is valid all the same."""
    snapshot: SnapshotState | None = field(default=None, repr=False, compare=False)
    """The committed version; None for version 0, and if nothing was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A new version, as post-commit hooks receive it."""

    store: Store
    config: Config
    version: int
    timestamp_ms: int
    transaction: Transaction
    """As committed: with row ids, timestamps and everything else that depends on the version."""
    base: SnapshotState | None
    """The version before, winning commits included; None for version 0."""
    snapshot: SnapshotState | None
    """The new version, with what earlier hooks learned of it; None for version 0."""


Hook: TypeAlias = Callable[[Committed], "SnapshotState | None"]
"""Runs after a commit. An error becomes a warning with the hook's `__name__`.

Returns the new version's snapshot if the hook learned more of it, else None."""

Rebase: TypeAlias = Callable[["WinningCommit"], "Transaction | None"]
"""Adapts a transaction to a winning commit whose file actions conflict with it.

Returns the transaction to commit after the winning commit, with the same `txn_id`, or None if the
conflict stands. It is not called if the winning commit changes protocol or metadata."""


class TxnObserver(Protocol):
    """Receives each phase of a commit, in its thread: the commit continues when it returns."""

    def __call__(self, phase: Phase, version: int, /) -> None:
        """Receive a phase; `version` is the one being attempted."""
