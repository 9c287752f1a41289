"""Every error lazydelta raises on purpose: facts as fields, and a text that names the cure.

Callers catch by kind (`DeltaError` catches all) and read the fields; people read the text. Each
class mixes in the builtin a Python user would expect, and all of them pickle, because Spark and
process pools carry them between processes. Nothing here knows about tables, logs or stores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

__all__ = [
    "BundleMismatchError",
    "ColumnNotFoundError",
    "ConfigError",
    "DataFileError",
    "DataFileNotFoundError",
    "DeletionVectorError",
    "DeltaError",
    "InternalError",
    "LogCorruptError",
    "LogGapError",
    "MissingExtraError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "PathNotAllowedError",
    "PredicateError",
    "QueryError",
    "RetentionGuardError",
    "SchemaError",
    "StoreAccessError",
    "StoreError",
    "TableNotFoundError",
    "TimestampNotFoundError",
    "TransientStoreError",
    "UnsupportedActionError",
    "UnsupportedFeatureError",
    "VersionCleanedUpError",
    "VersionNotCommittedError",
    "VersionNotFoundError",
    "redact",
]

_SECRET_IN_URL = re.compile(
    r"(?i)([?&](?:sig|se|sp|sv|skoid|token|signature|awsaccesskeyid|x-amz-[a-z-]+|x-goog-[a-z-]+)=)"
    r"[^&\s\"']*"
)
_USERINFO = re.compile(r"(\w[\w+.-]*://)[^/@\s:]+:[^/@\s]+@")


def redact(text: str) -> str:
    """Return `text` without signatures, tokens and passwords of the URLs in it.

    >>> redact("https://a.blob.core.windows.net/c/t?sv=1&sig=abc%3D")
    'https://a.blob.core.windows.net/c/t?sv=***&sig=***'
    """
    return _USERINFO.sub(r"\1***@", _SECRET_IN_URL.sub(r"\1***", text))


class DeltaError(Exception):
    """Base of all errors that lazydelta raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the fields: dataclass errors do not keep them in `args`."""
        names: list[str] = [f.name for f in fields(self)] if is_dataclass(self) else []
        return (type(self), tuple(getattr(self, name) for name in names))


@dataclass(eq=False)
class TableNotFoundError(DeltaError, FileNotFoundError):
    """There is no Delta table at this address."""

    table: str

    def __str__(self) -> str:
        return (
            f"no Delta table at {redact(self.table)}: its _delta_log has no commit and no "
            "checkpoint. Check the address, and that the credentials may list it."
        )


@dataclass(eq=False)
class VersionNotFoundError(DeltaError, LookupError):
    """The log does not hold what is needed to rebuild the requested version."""

    table: str
    requested: int
    earliest: int
    latest: int

    _reason = "the log does not hold it"

    def __str__(self) -> str:
        return (
            f"cannot read version {self.requested} of {redact(self.table)}: {self._reason}. "
            f"Readable versions: {self.earliest} to {self.latest}."
        )


class VersionNotCommittedError(VersionNotFoundError):
    """The requested version is newer than the newest commit."""

    _reason = "it is not committed yet"


class VersionCleanedUpError(VersionNotFoundError):
    """The commits that would rebuild the requested version were removed by log cleanup."""

    _reason = "log cleanup (delta.logRetentionDuration) removed the commits it needs"


@dataclass(eq=False)
class TimestampNotFoundError(DeltaError, LookupError):
    """No readable version was current at the requested time."""

    table: str
    requested: str
    kind: str  # "before-table" | "cleaned-up" | "not-yet"
    earliest: str
    latest: str

    def __str__(self) -> str:
        reason = {
            "before-table": "the table did not exist then",
            "cleaned-up": "log cleanup removed the commits of that time",
            "not-yet": "it is later than the newest commit",
        }[self.kind]
        return (
            f"cannot read {redact(self.table)} as of {self.requested}: {reason}. "
            f"Readable times: {self.earliest} to {self.latest}."
        )


@dataclass(eq=False)
class BundleMismatchError(DeltaError, ValueError):
    """A bundle names a version that is there, but is not what it was when it was pinned."""

    table: str
    version: int
    expected: str
    found: str

    def __str__(self) -> str:
        return (
            f"version {self.version} of {redact(self.table)} is not the one that was pinned: its "
            f"content hash is {self.found[:12]}..., not {self.expected[:12]}... . The table was "
            "replaced or rewritten; pin it anew."
        )


@dataclass(eq=False)
class LogCorruptError(DeltaError, ValueError):
    """A file of the log cannot be trusted: it is damaged, hostile or not Delta."""

    table: str
    file: str
    reason: str
    version: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}, line {self.line}"
        at = "" if self.version is None else f" (version {self.version})"
        return (
            f"corrupt log of {redact(self.table)}: {where}{at}: {redact(self.reason)}. "
            "Restore the file from a backup, or read an older version that does not need it."
        )


@dataclass(eq=False)
class LogGapError(DeltaError, ValueError):
    """Commits are missing between the ones that are there; replaying over a gap loses rows."""

    table: str
    missing: tuple[int, ...]
    version: int

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.missing[:5])) + (", ..." if len(self.missing) > 5 else "")
        return (
            f"the log of {redact(self.table)} has a gap before version {self.version}: "
            f"missing {shown}. Restore the missing commits, or read a version that does not "
            "need them."
        )


@dataclass(eq=False)
class UnsupportedFeatureError(DeltaError, NotImplementedError):
    """The table's protocol asks for something this engine does not implement."""

    table: str
    features: tuple[str, ...]
    access: str  # "read" | "write"
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return (
            f"cannot {self.access} {redact(self.table)}: it needs "
            f"{', '.join(self.features)}, which lazydelta does not support{why}. "
            "Use an engine that does, or drop the feature from the table."
        )


@dataclass(eq=False)
class UnsupportedActionError(DeltaError, NotImplementedError):
    """The strict tripwire met an action it may not pass, and fallback is off."""

    table: str
    version: int
    action: str

    def __str__(self) -> str:
        return (
            f"version {self.version} of {redact(self.table)} has the action {self.action!r}, which "
            "the lazy scan may not pass in this mode. Set enable_fallback=True or "
            'tripwire="protocol".'
        )


@dataclass(eq=False)
class RetentionGuardError(DeltaError, RuntimeError):
    """The caller's retention guard refused to scan from this floor."""

    table: str
    floor_version: int

    def __str__(self) -> str:
        return (
            f"the retention guard refused to scan {redact(self.table)} down to version "
            f"{self.floor_version}. Write a newer checkpoint, or relax the guard."
        )


@dataclass(eq=False)
class PathNotAllowedError(DeltaError, PermissionError):
    """A path in the log points outside the table's root, and the caller named no such root."""

    table: str
    path: str
    reason: str

    def __str__(self) -> str:
        return (
            f"refused to open {redact(self.path)!r} from the log of {redact(self.table)}: "
            f"{self.reason}. If this table may reach there (a shallow clone, say), name the place "
            "in Config(allowed_roots=...)."
        )


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
        return f"no column {self.column!r}{self.reason}. Existing columns: {shown}."


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
class StoreError(DeltaError, OSError):
    """The object store failed; `reason` is its own word, without secrets."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{redact(self.path)}: {redact(self.reason)}"


class ObjectNotFoundError(StoreError, FileNotFoundError):
    """There is no object at this path."""


class ObjectExistsError(StoreError, FileExistsError):
    """There is an object at this path already, and the write was not to replace it."""


class StoreAccessError(StoreError, PermissionError):
    """The store refused: missing, wrong or expired credentials, or a link out of the root."""


class TransientStoreError(StoreError):
    """The store failed in a way that may pass: the one kind that is tried again."""


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
class ConfigError(DeltaError, ValueError):
    """A setting that does not exist or does not take this value."""

    setting: str
    reason: str

    def __str__(self) -> str:
        return f"{self.setting}: {redact(self.reason)}"


@dataclass(eq=False)
class MissingExtraError(DeltaError, ImportError):
    """An optional dependency is not installed."""

    package: str
    extra: str

    def __str__(self) -> str:
        return f"{self.package} is not installed: run `pip install 'lazydelta[{self.extra}]'`."


@dataclass(eq=False)
class InternalError(DeltaError, RuntimeError):
    """An invariant of lazydelta itself does not hold."""

    reason: str

    def __str__(self) -> str:
        return f"{self.reason}. This is a bug in lazydelta, please report it."
