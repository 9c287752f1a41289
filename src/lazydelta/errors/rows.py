"""Errors of rows: schemas, predicates, data files, and change feeds."""

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
    "FilesNotFoundError",
    "PredicateError",
    "QueryError",
    "SchemaError",
    "StreamChangesError",
    "StreamSchemaError",
]


@dataclass(eq=False)
class SchemaError(DeltaError, ValueError):
    """A schema that violates the protocol."""

    reason: str
    where: str = ""

    def __str__(self) -> str:
        return f"invalid schema{f' of {redact(self.where)}' if self.where else ''}: {self.reason}"


@dataclass(eq=False)
class ColumnNotFoundError(SchemaError, KeyError):
    """A column that does not exist in the schema."""

    reason: str
    where: str = ""
    column: str = ""
    existing: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(self.existing[:12]) + (", ..." if len(self.existing) > 12 else "")
        existing = (
            f"Existing columns: {shown}." if shown else "The schema has no columns at that level."
        )
        return f"no column {self.column!r}{self.reason}. {existing}"


@dataclass(eq=False)
class PredicateError(DeltaError, ValueError):
    """A predicate that cannot be parsed, or does not fit the schema."""

    predicate: str
    reason: str

    def __str__(self) -> str:
        return f"cannot use the predicate {self.predicate!r}: {self.reason}"


@dataclass(eq=False)
class QueryError(DeltaError, ValueError):
    """A query that the SQL engine rejected or failed on."""

    sql: str
    engine: str
    reason: str

    def __str__(self) -> str:
        return f"{self.engine} cannot run {redact(self.sql)!r}: {redact(self.reason)}"


@dataclass(eq=False)
class DataFileError(DeltaError, ValueError):
    """A data file that does not match the log: it is damaged, or has other types."""

    table: str
    path: str
    reason: str
    cure: str = "Restore the file from a backup, or read a version that does not need it"

    def __str__(self) -> str:
        where = f"{redact(self.path)} of {redact(self.table)}"
        return f"cannot read {where}: {redact(self.reason)}. {self.cure}."


@dataclass(eq=False)
class DataFileNotFoundError(DeltaError, FileNotFoundError):
    """A live file of the log does not exist in the store."""

    table: str
    path: str
    version: int

    def __str__(self) -> str:
        return (
            f"{redact(self.path)} does not exist, and version {self.version} of "
            f"{redact(self.table)} needs it. A vacuum probably removed it, with a retention "
            "(delta.deletedFileRetentionDuration) shorter than the age of this version. Read a "
            "newer version, or restore the file from a backup."
        )


@dataclass(eq=False)
class FilesNotFoundError(DeltaError, FileNotFoundError):
    """Files of a version that is to be restored do not exist any more."""

    table: str
    version: int
    paths: tuple[str, ...]
    """Some of the missing files."""
    count: int

    def __str__(self) -> str:
        more = f" and {self.count - len(self.paths)} more" if self.count > len(self.paths) else ""
        return (
            f"cannot restore version {self.version} of {redact(self.table)}: {self.count} of its "
            f"files are missing, probably deleted by a vacuum: {', '.join(self.paths)}{more}. "
            "Restore a newer version, or give ignore_missing_files=True to restore the others."
        )


@dataclass(eq=False)
class DeletionVectorError(DeltaError, ValueError):
    """An invalid deletion vector; its file is not read, because deleted rows would return."""

    table: str
    path: str
    reason: str

    def __str__(self) -> str:
        return (
            f"invalid deletion vector of {redact(self.path)} in {redact(self.table)}: "
            f"{redact(self.reason)}. Restore the vector's file, or read a version before it."
        )


@dataclass(eq=False)
class ChangeFeedDisabledError(DeltaError, ValueError):
    """A version of the requested range has no change data feed."""

    table: str
    version: int
    start: int
    end: int
    enabled_from: int | None = None

    def __str__(self) -> str:
        cure = "Set delta.enableChangeDataFeed=true on the table; later versions then have one."
        if self.enabled_from is not None:
            cure = f"Start at version {self.enabled_from}: it is enabled from there to {self.end}."
        return (
            f"cannot read the changes of versions {self.start} to {self.end} of "
            f"{redact(self.table)}: the change data feed is disabled at version {self.version}. "
            f"{cure}"
        )


@dataclass(eq=False)
class ChangeFeedSchemaError(DeltaError, ValueError):
    """The schema changed within the range, and one schema cannot represent all changes."""

    table: str
    version: int
    end: int
    reason: str

    def __str__(self) -> str:
        return (
            f"the changes of version {self.version} of {redact(self.table)} do not fit the schema "
            f"of version {self.end}, which the result has: {self.reason}. Read the range up to "
            f"version {self.end} in parts that end before the schema changes."
        )


@dataclass(eq=False)
class StreamChangesError(DeltaError, ValueError):
    """A stream of appended rows reached a commit that deletes or rewrites rows."""

    table: str
    version: int
    updates: bool

    def __str__(self) -> str:
        what = "updates existing rows" if self.updates else "deletes rows"
        cure = "ignoreChanges=true emits rewritten files again, unchanged rows included"
        if not self.updates:
            cure = "ignoreDeletes=true ignores commits that only delete"
        return (
            f"version {self.version} of {redact(self.table)} {what}, and a stream emits appended "
            f"rows only. {cure}; skipChangeCommits=true skips such commits; "
            "readChangeFeed=true emits the changes."
        )


@dataclass(eq=False)
class StreamSchemaError(DeltaError, ValueError):
    """The schema changed during a stream, and the stream's schema cannot represent all rows."""

    table: str
    version: int
    reason: str

    def __str__(self) -> str:
        return (
            f"version {self.version} of {redact(self.table)} has another schema than the stream: "
            f"{self.reason}. Restart the stream from its checkpoint: it continues with the table's "
            "current schema; rows that do not fit that schema need a new checkpoint."
        )
