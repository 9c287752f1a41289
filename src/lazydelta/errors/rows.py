"""Errors about rows: schemas, predicates, data files, and feeds of changes."""

from __future__ import annotations

from dataclasses import dataclass

from lazydelta.errors.base import DeltaError, redact

__all__ = [
    "ChangeFeedDisabledError",
    "ChangeFeedSchemaError",
    "ColumnNotFoundError",
    "DataFileError",
    "DataFileNotFoundError",
    "DeletionVectorError",
    "PredicateError",
    "QueryError",
    "SchemaError",
    "StreamChangesError",
    "StreamSchemaError",
]


@dataclass(eq=False)
class SchemaError(DeltaError, ValueError):
    """A schema that breaks the protocol's rules."""

    reason: str
    where: str = ""

    def __str__(self) -> str:
        return f"invalid schema{f' of {redact(self.where)}' if self.where else ''}: {self.reason}"


@dataclass(eq=False)
class ColumnNotFoundError(SchemaError, KeyError):
    """A name that the schema does not have."""

    reason: str
    where: str = ""
    column: str = ""
    existing: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(self.existing[:12]) + (", ..." if len(self.existing) > 12 else "")
        existing = f"Existing columns: {shown}." if shown else "There is none at that place."
        return f"no column {self.column!r}{self.reason}. {existing}"


@dataclass(eq=False)
class PredicateError(DeltaError, ValueError):
    """A predicate that cannot be understood or does not fit the schema."""

    predicate: str
    reason: str

    def __str__(self) -> str:
        return f"cannot use the predicate {self.predicate!r}: {self.reason}"


@dataclass(eq=False)
class QueryError(DeltaError, ValueError):
    """A query that the SQL engine refused, or failed on."""

    sql: str
    engine: str
    reason: str

    def __str__(self) -> str:
        return f"{self.engine} cannot run {self.sql!r}: {redact(self.reason)}"


@dataclass(eq=False)
class DataFileError(DeltaError, ValueError):
    """A data file that cannot be read as what the log says it is: damaged, or of other types."""

    table: str
    path: str
    reason: str

    def __str__(self) -> str:
        return (
            f"cannot read {redact(self.path)} of {redact(self.table)}: {redact(self.reason)}. "
            "Restore the file from a backup, or read a version that does not need it."
        )


@dataclass(eq=False)
class DataFileNotFoundError(DeltaError, FileNotFoundError):
    """A file that the log calls live is not in the store."""

    table: str
    path: str
    version: int

    def __str__(self) -> str:
        return (
            f"{redact(self.path)} is gone, and version {self.version} of {redact(self.table)} "
            "needs it: a vacuum probably removed it, with a retention "
            "(delta.deletedFileRetentionDuration) shorter than the age of this version. Read a "
            "newer version, or restore the file from a backup."
        )


@dataclass(eq=False)
class DeletionVectorError(DeltaError, ValueError):
    """A deletion vector that cannot be trusted; its file is not read, lest deleted rows return."""

    table: str
    path: str
    reason: str

    def __str__(self) -> str:
        return (
            f"bad deletion vector of {redact(self.path)} in {redact(self.table)}: "
            f"{redact(self.reason)}. Restore the vector's file, or read a version before it."
        )


@dataclass(eq=False)
class ChangeFeedDisabledError(DeltaError, ValueError):
    """Changes are asked for of a version that did not record them."""

    table: str
    version: int
    start: int
    end: int
    enabled_from: int | None = None

    def __str__(self) -> str:
        cure = "Set delta.enableChangeDataFeed=true on the table; later versions then record them."
        if self.enabled_from is not None:
            cure = f"Start at version {self.enabled_from}: from there to {self.end} it is on."
        return (
            f"cannot read the changes of versions {self.start} to {self.end} of "
            f"{redact(self.table)}: the change data feed is off at version {self.version}. {cure}"
        )


@dataclass(eq=False)
class ChangeFeedSchemaError(DeltaError, ValueError):
    """The schema changed within a range of changes so that one schema cannot show them all."""

    table: str
    version: int
    end: int
    reason: str

    def __str__(self) -> str:
        return (
            f"the changes of version {self.version} of {redact(self.table)} do not fit the schema "
            f"of version {self.end}, in which they are shown: {self.reason}. Read up to version "
            f"{self.end} in parts that end before the schema changes."
        )


@dataclass(eq=False)
class StreamChangesError(DeltaError, ValueError):
    """A stream of appended rows met a commit that deletes or rewrites some."""

    table: str
    version: int
    updates: bool

    def __str__(self) -> str:
        what = "changes rows that it had" if self.updates else "deletes rows"
        cure = "ignoreChanges=true gives the rewritten files again, rows that stayed included"
        if not self.updates:
            cure = "ignoreDeletes=true passes over commits that only delete"
        return (
            f"version {self.version} of {redact(self.table)} {what}, and a stream gives appended "
            f"rows only. {cure}; skipChangeCommits=true leaves such commits out; "
            "readChangeFeed=true gives the changes themselves."
        )


@dataclass(eq=False)
class StreamSchemaError(DeltaError, ValueError):
    """The schema changed while a stream was reading, so that its own cannot show all rows."""

    table: str
    version: int
    reason: str

    def __str__(self) -> str:
        return (
            f"version {self.version} of {redact(self.table)} has another schema than the stream "
            f"that reads it: {self.reason}. Start the stream again from its checkpoint: it goes on "
            "in the schema that the table has then; rows that do not fit that one need a new "
            "checkpoint."
        )
