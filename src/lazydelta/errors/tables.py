"""Errors about a table: its log, its versions, its protocol, and where it may point."""

from __future__ import annotations

from dataclasses import dataclass

from lazydelta.errors.base import DeltaError, redact

__all__ = [
    "BundleMismatchError",
    "LogCorruptError",
    "LogGapError",
    "PathNotAllowedError",
    "RetentionGuardError",
    "TableNotFoundError",
    "TimestampNotFoundError",
    "UnsupportedActionError",
    "UnsupportedFeatureError",
    "VersionCleanedUpError",
    "VersionNotCommittedError",
    "VersionNotFoundError",
]


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
            f"hash is {self.found[:12]}..., not {self.expected[:12]}... . The table was "
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
    """An action that nobody here knows, where it may neither be passed over nor be lost."""

    table: str
    version: int
    action: str
    reason: str = "the lazy scan may not pass in this mode"
    cure: str = 'Set enable_fallback=True or tripwire="protocol".'

    def __str__(self) -> str:
        return (
            f"version {self.version} of {redact(self.table)} has the action {self.action!r}, which "
            f"{self.reason}. {self.cure}"
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
