"""Commit a transaction as the next version of a table: attempts, conflict detection, retry.

Implements the protocol's concurrency rules. Independent of rows, data files and operations.
"""

from __future__ import annotations

from lazydelta.transaction.attempt import commit
from lazydelta.transaction.commit_json import check_user_metadata
from lazydelta.transaction.read_snapshot import validate_newest_commit
from lazydelta.transaction.resolve import Resolution, resolve_commit
from lazydelta.transaction.result import CommitResult, Committed, Hook, Phase, TxnObserver
from lazydelta.transaction.transaction import ADDS, CHANGE_FILES, REMOVES, Reads, Transaction
from lazydelta.transaction.winning_commit import WinningCommit

__all__ = [
    "ADDS",
    "CHANGE_FILES",
    "REMOVES",
    "CommitResult",
    "Committed",
    "Hook",
    "Phase",
    "Reads",
    "Resolution",
    "Transaction",
    "TxnObserver",
    "WinningCommit",
    "check_user_metadata",
    "commit",
    "resolve_commit",
    "validate_newest_commit",
]
