"""From a transaction to a version: the race for the next number, and what losing it means.

Knows the protocol's rules of concurrency; nothing of rows, data files or schemas.
"""

from __future__ import annotations

from lazydelta.transaction.attempt import commit
from lazydelta.transaction.commit_json import check_user_metadata
from lazydelta.transaction.resolve import Resolution, resolve_commit
from lazydelta.transaction.result import CommitResult, Committed, Hook, TxnObserver
from lazydelta.transaction.transaction import ADDS, CHANGE_FILES, REMOVES, Reads, Transaction

__all__ = [
    "ADDS",
    "CHANGE_FILES",
    "REMOVES",
    "CommitResult",
    "Committed",
    "Hook",
    "Reads",
    "Resolution",
    "Transaction",
    "TxnObserver",
    "check_user_metadata",
    "commit",
    "resolve_commit",
]
