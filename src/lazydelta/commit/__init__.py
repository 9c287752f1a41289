"""From a transaction to a version: the race for the next number, and what losing it means.

Knows the protocol's rules of concurrency; nothing of rows, data files or schemas.
"""

from __future__ import annotations

from lazydelta.commit.attempt import commit
from lazydelta.commit.lines import check_user_metadata
from lazydelta.commit.pace import Clock
from lazydelta.commit.resolve import Resolution, resolve_commit
from lazydelta.commit.result import CommitResult, Committed, Hook, Phase, TxnObserver
from lazydelta.commit.transaction import (
    ADDS,
    CHANGE_FILES,
    REMOVES,
    Isolation,
    Reads,
    Transaction,
)

__all__ = [
    "ADDS",
    "CHANGE_FILES",
    "REMOVES",
    "Clock",
    "CommitResult",
    "Committed",
    "Hook",
    "Isolation",
    "Phase",
    "Reads",
    "Resolution",
    "Transaction",
    "TxnObserver",
    "check_user_metadata",
    "commit",
    "resolve_commit",
]
