"""What a commit tells its caller, its hooks and whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction.transaction import Transaction

__all__ = ["CommitResult", "Committed", "Hook", "Phase", "TxnObserver"]

Phase = Literal["start", "prepared", "put", "lost", "rebased", "committed", "finished"]
"""Where a commit is: begun; its bytes made for a version; the version about to be asked for; taken
by another; the winners read and found harmless; ours; its hooks done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What became of a transaction."""

    version: int
    """The version it is, or the one that shows it was applied before."""
    txn_id: str
    attempts: int
    """How often the store was asked for a version."""
    already_applied: bool
    """Whether the same step of the same application was committed before, and nothing now."""
    timestamp_ms: int
    """When it was committed, by this machine's clock, or as the commit itself says."""
    warnings: tuple[str, ...] = ()
    """What failed after the commit, which stands all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A new version, as its hooks see it."""

    store: Store
    config: Config
    version: int
    timestamp_ms: int
    transaction: Transaction
    """As it was committed: with row ids, times and all that depends on the version."""
    base: SnapshotState | None
    """The version before, which winners of lost races are part of; None for version 0."""


Hook: TypeAlias = Callable[[Committed], None]
"""Run after a commit; what it raises becomes a warning that bears its `__name__`."""


class TxnObserver(Protocol):
    """Told where a commit is, in its own thread: it goes on when the call returns."""

    def __call__(self, phase: Phase, version: int, /) -> None:
        """Take notice; `version` is the one that is tried for."""
