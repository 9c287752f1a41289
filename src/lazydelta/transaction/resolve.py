"""Resolve a commit whose outcome was unknown, once the store responds again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lazydelta.config import Config
from lazydelta.errors import LogCorruptError, ObjectNotFoundError
from lazydelta.log import CommitReader
from lazydelta.transaction.read_snapshot import commit_file
from lazydelta.transaction.winning_commit import read_txn_id

if TYPE_CHECKING:
    from lazydelta.store import Store

__all__ = ["Resolution", "resolve_commit"]

Resolution = Literal["committed", "lost", "open"]


def resolve_commit(store: Store, txn_id: str, version: int) -> Resolution:
    """Return whether a transaction was committed at the version it was last attempted at.

    `committed` and `lost` are final. `open` means that the version does not exist yet: a put that
    is still in flight may create it. Committing the same transaction again settles it, and
    applies it at most once.

    Args:
        store: The store of the table.
        txn_id: `CommitUnknownError.txn_id`.
        version: `CommitUnknownError.version`.
    """
    try:
        committed_id = read_txn_id(CommitReader(store, Config()), commit_file(version))
    except LogCorruptError as error:
        if isinstance(error.__cause__, ObjectNotFoundError):
            return "open"
        raise
    return "committed" if committed_id == txn_id else "lost"
