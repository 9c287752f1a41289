"""What became of a commit whose outcome was unknown, asked when the store answers again."""

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
    """Return whether a transaction took effect, from the version it was last tried at.

    `committed` and `lost` are final. `open` means that the version is not taken yet: a put that
    is still on its way may land, so nothing is proven. Committing the same transaction again
    settles it: whoever gets the version, it is applied at most once.

    Args:
        store: Where the table is.
        txn_id: Of the transaction, from `CommitUnknownError`.
        version: From the same.
    """
    try:
        found = read_txn_id(CommitReader(store, Config()), commit_file(version))
    except LogCorruptError as error:
        if isinstance(error.__cause__, ObjectNotFoundError):
            return "open"
        raise
    return "committed" if found == txn_id else "lost"
