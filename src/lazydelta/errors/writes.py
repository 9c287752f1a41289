"""Errors of writers: conflicts, unknown outcomes, and rows that a table does not accept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lazydelta.errors.base import DeltaError, redact

__all__ = [
    "AlterationError",
    "AppendOnlyError",
    "CommitAttemptsError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConstraintViolationError",
    "IdentityExhaustedError",
    "InvalidCommitError",
    "MetadataChangedError",
    "MultipleMatchesError",
    "ProtocolChangedError",
    "SchemaMismatchError",
    "TableExistsError",
]

_TABLE_EXISTS_CURES = {
    "write": 'Use mode="append" or "overwrite" to write to it, "ignore" to keep it as it is.',
    "create": 'Use mode="ignore" to keep it as it is, open it with Table.open, or change it '
    "with table.alter.",
    "convert": "Open it with Table.open: there is nothing to convert.",
    "clone": "Clone to another directory.",
}


@dataclass(eq=False)
class CommitConflictError(DeltaError, RuntimeError):
    """A concurrent commit conflicts with this transaction."""

    table: str
    winning_version: int
    winning_operation: str
    detail: str

    retryable = True
    """Whether the operation may succeed if it is planned again on the newest version."""
    _what = "a concurrent commit conflicts with it"

    def __str__(self) -> str:
        return (
            f"cannot commit to {redact(self.table)}: {self._what}: {self.detail} "
            f"(version {self.winning_version}, {self.winning_operation or 'unknown operation'}). "
            "Nothing was committed; run the operation again on the newest version."
        )


class ConcurrentAppendError(CommitConflictError):
    """A concurrent commit added files that this transaction would have read."""

    _what = "files were added to what it read"


class ConcurrentDeleteReadError(CommitConflictError):
    """A concurrent commit removed a file that this transaction read."""

    _what = "a file that it read was removed"


class ConcurrentDeleteDeleteError(CommitConflictError):
    """A concurrent commit removed a file that this transaction removes."""

    _what = "a file that it removes was removed"


class MetadataChangedError(CommitConflictError):
    """A concurrent commit changed the table's metadata."""

    _what = "the table's metadata changed"


class ProtocolChangedError(CommitConflictError):
    """A concurrent commit changed the protocol."""

    _what = "the table's protocol changed"


class ConcurrentTransactionError(CommitConflictError):
    """The same application, or a writer of the same metadata domain, committed concurrently."""

    _what = "the same application or metadata domain was committed"


@dataclass(eq=False)
class CommitUnknownError(DeltaError, RuntimeError):
    """The store failed during a commit, and its outcome could not be read back."""

    table: str
    version: int
    txn_id: str
    reason: str

    def __str__(self) -> str:
        return (
            f"unknown whether version {self.version} of {redact(self.table)} was committed: "
            f"{redact(self.reason)}. Nothing was deleted. When the store is available again, "
            f"compare the txnId of that version's commitInfo with {self.txn_id}: if equal, the "
            "commit succeeded; if not, it failed and can be repeated."
        )


@dataclass(eq=False)
class CommitAttemptsError(DeltaError, RuntimeError):
    """Every attempt to commit lost to a concurrent commit."""

    table: str
    attempts: int
    seconds: float
    last_version: int

    def __str__(self) -> str:
        return (
            f"gave up committing to {redact(self.table)} after {self.attempts} attempts in "
            f"{self.seconds:.1f} s: other writers took every version up to {self.last_version}. "
            "Nothing was committed; write less often, or raise Config(commit_attempts=..., "
            "commit_seconds=...)."
        )


@dataclass(eq=False)
class InvalidCommitError(DeltaError, ValueError):
    """The actions of a commit contradict each other, or violate the protocol."""

    table: str
    reason: str

    def __str__(self) -> str:
        return f"refused to commit to {redact(self.table)}: {self.reason}."


@dataclass(eq=False)
class TableExistsError(DeltaError, FileExistsError):
    """There is a table already."""

    table: str
    operation: Literal["write", "create", "convert", "clone"] = "write"

    def __str__(self) -> str:
        cure = _TABLE_EXISTS_CURES[self.operation]
        return f"a Delta table already exists at {redact(self.table)}. {cure}"


@dataclass(eq=False)
class AlterationError(DeltaError, ValueError):
    """A change of columns, properties or protocol that the table does not allow."""

    table: str
    change: str
    reason: str
    cure: str = ""

    def __str__(self) -> str:
        cure = f" {self.cure}." if self.cure else ""
        return f"cannot {self.change} in {redact(self.table)}: {self.reason}.{cure}"


@dataclass(eq=False)
class AppendOnlyError(DeltaError, PermissionError):
    """The table is append-only."""

    table: str
    operation: str

    def __str__(self) -> str:
        return (
            f"{self.operation} would remove rows of {redact(self.table)}, which is append-only. "
            "Unset its property delta.appendOnly first."
        )


@dataclass(eq=False)
class SchemaMismatchError(DeltaError, ValueError):
    """The rows do not fit the table's schema."""

    table: str
    differences: tuple[str, ...]
    cure: str = ""

    def __str__(self) -> str:
        lines = "".join(f"\n  - {line}" for line in self.differences)
        return f"the rows do not fit {redact(self.table)}:{lines}\n{self.cure}".rstrip()


@dataclass(eq=False)
class ConstraintViolationError(DeltaError, ValueError):
    """Rows violate a constraint of the table; nothing was committed."""

    table: str
    violations: tuple[str, ...]

    def __str__(self) -> str:
        lines = "".join(f"\n  - {line}" for line in self.violations)
        return f"rows violate constraints of {redact(self.table)}; nothing was committed:{lines}"


@dataclass(eq=False)
class IdentityExhaustedError(DeltaError, OverflowError):
    """The rows need more values than an identity column has left; nothing was committed."""

    table: str
    column: str
    start: int
    step: int

    def __str__(self) -> str:
        return (
            f"cannot generate identity values for {redact(self.table)}: column {self.column!r} "
            f"(start {self.start}, step {self.step}) would exceed 64 bits. Nothing was committed; "
            "write the rows to a table with another start or a smaller step."
        )


@dataclass(eq=False)
class MultipleMatchesError(DeltaError, ValueError):
    """Several source rows of a MERGE change one row of the table; nothing was committed."""

    table: str
    condition: str
    row: str
    """The row, by the values of its key."""

    def __str__(self) -> str:
        return (
            f"several source rows change one row of {redact(self.table)}: {self.row} (ON "
            f"{self.condition}). Nothing was committed. Keep one source row for each key, or "
            "let only one of them satisfy the WHEN MATCHED conditions."
        )
