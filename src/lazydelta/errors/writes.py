"""Errors of writers: lost races, unknown outcomes, and rows that a table does not take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
    "ProtocolChangedError",
    "SchemaMismatchError",
    "TableExistsError",
]


@dataclass(eq=False)
class CommitConflictError(DeltaError, RuntimeError):
    """Another writer committed first, and this transaction does not hold after it."""

    table: str
    winning_version: int
    winning_operation: str
    detail: str

    retryable: ClassVar[bool] = True
    """Whether planning the operation anew on the newest version may succeed."""
    _what: ClassVar[str] = "another writer's commit contradicts this one"

    def __str__(self) -> str:
        return (
            f"cannot commit to {redact(self.table)}: {self._what}: {self.detail} "
            f"(version {self.winning_version}, {self.winning_operation or 'unknown operation'}). "
            "Nothing was changed; run the operation again on the newest version."
        )


class ConcurrentAppendError(CommitConflictError):
    """Files were added that this transaction would have read."""

    _what = "files were added to what it read"


class ConcurrentDeleteReadError(CommitConflictError):
    """A file that this transaction read is gone."""

    _what = "a file that it read was removed"


class ConcurrentDeleteDeleteError(CommitConflictError):
    """A file that this transaction removes is gone already."""

    _what = "a file that it removes was removed"


class MetadataChangedError(CommitConflictError):
    """The schema or the properties changed."""

    _what = "the table's metadata changed"


class ProtocolChangedError(CommitConflictError):
    """The protocol changed."""

    _what = "the table's protocol changed"


class ConcurrentTransactionError(CommitConflictError):
    """The same application, or a writer of the same metadata domain, committed."""

    _what = "the same application or metadata domain was committed"


@dataclass(eq=False)
class CommitUnknownError(DeltaError, RuntimeError):
    """The store did not say whether the commit took effect, and could not be asked."""

    table: str
    version: int
    txn_id: str
    reason: str

    def __str__(self) -> str:
        return (
            f"unknown whether version {self.version} of {redact(self.table)} was committed: "
            f"{redact(self.reason)}. Nothing was deleted. When the store answers again, see "
            f"whether that version's commitInfo has txnId {self.txn_id}: if it has, the commit "
            "took effect; if it has another, it did not and can be repeated."
        )


@dataclass(eq=False)
class CommitAttemptsError(DeltaError, RuntimeError):
    """Other writers kept winning."""

    table: str
    attempts: int
    seconds: float
    last_version: int

    def __str__(self) -> str:
        return (
            f"gave up committing to {redact(self.table)} after {self.attempts} attempts in "
            f"{self.seconds:.1f} s: other writers took every version up to {self.last_version}. "
            "Nothing was changed; write less often, or allow more in Config(commit_attempts=..., "
            "commit_seconds=...)."
        )


@dataclass(eq=False)
class InvalidCommitError(DeltaError, ValueError):
    """The actions of a commit contradict each other or the protocol."""

    table: str
    reason: str

    def __str__(self) -> str:
        return f"refused to commit to {redact(self.table)}: {self.reason}."


@dataclass(eq=False)
class TableExistsError(DeltaError, FileExistsError):
    """There is a table already."""

    table: str

    def __str__(self) -> str:
        return (
            f'there is a Delta table at {redact(self.table)} already. Use mode="append" or '
            '"overwrite" to write to it, "ignore" to leave it as it is.'
        )


@dataclass(eq=False)
class AlterationError(DeltaError, ValueError):
    """A change of a table's columns, properties or protocol that the table does not allow."""

    table: str
    change: str
    reason: str
    cure: str = ""

    def __str__(self) -> str:
        cure = f" {self.cure}." if self.cure else ""
        return f"cannot {self.change} in {redact(self.table)}: {self.reason}.{cure}"


@dataclass(eq=False)
class AppendOnlyError(DeltaError, PermissionError):
    """The table only takes appends."""

    table: str
    operation: str

    def __str__(self) -> str:
        return (
            f"{self.operation} would remove rows of {redact(self.table)}, which only takes "
            "appends. Unset its property delta.appendOnly first."
        )


@dataclass(eq=False)
class SchemaMismatchError(DeltaError, ValueError):
    """The rows do not have the table's schema."""

    table: str
    differences: tuple[str, ...]
    cure: str = ""

    def __str__(self) -> str:
        lines = "".join(f"\n  - {line}" for line in self.differences)
        return f"the rows do not fit {redact(self.table)}:{lines}\n{self.cure}".rstrip()


@dataclass(eq=False)
class ConstraintViolationError(DeltaError, ValueError):
    """Rows break a rule of the table; nothing was committed."""

    table: str
    violations: tuple[str, ...]

    def __str__(self) -> str:
        lines = "".join(f"\n  - {line}" for line in self.violations)
        return f"rows break rules of {redact(self.table)}; nothing was written:{lines}"


@dataclass(eq=False)
class IdentityExhaustedError(DeltaError, OverflowError):
    """The rows need more numbers than an identity column has left; nothing was committed."""

    table: str
    column: str
    start: int
    step: int

    def __str__(self) -> str:
        return (
            f"cannot number the rows for {redact(self.table)}: identity column {self.column!r} "
            f"(from {self.start} by {self.step}) would go past 64 bits. Nothing was committed; "
            "write the rows to a table with another start or a smaller step."
        )
