"""Errors of a table: its log, its versions, its protocol, and paths outside its root."""

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
    reason: str = (
        "its _delta_log has no commit and no checkpoint. Check the address, and that the "
        "credentials allow listing it"
    )

    def __str__(self) -> str:
        return f"no Delta table at {redact(self.table)}: {redact(self.reason)}."


@dataclass(eq=False)
class VersionNotFoundError(DeltaError, LookupError):
    """The log does not have what the requested version needs."""

    table: str
    requested: int
    earliest: int
    latest: int

    _reason = "it is not in the log"

    def __str__(self) -> str:
        return (
            f"cannot read version {self.requested} of {redact(self.table)}: {self._reason}. "
            f"Readable versions: {self.earliest} to {self.latest}."
        )


class VersionNotCommittedError(VersionNotFoundError):
    """The requested version is newer than the newest commit."""

    _reason = "it is not committed yet"


class VersionCleanedUpError(VersionNotFoundError):
    """Log cleanup removed commits that the requested version needs."""

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
            f"Readable timestamps: {self.earliest} to {self.latest}."
        )


@dataclass(eq=False)
class BundleMismatchError(DeltaError, ValueError):
    """The version of a bundle exists, but differs from the pinned one."""

    table: str
    version: int
    expected: str
    found: str

    def __str__(self) -> str:
        return (
            f"version {self.version} of {redact(self.table)} differs from the pinned one: its "
            f"hash is {self.found[:12]}..., not {self.expected[:12]}... . The table was "
            "replaced or rewritten; pin it again."
        )


@dataclass(eq=False)
class LogCorruptError(DeltaError, ValueError):
    """A file of the log is invalid: it is damaged, malicious or not Delta."""

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
    """Commits are missing within the log; a replay over a gap would lose rows."""

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
    """The table's protocol needs a feature that lazydelta does not implement."""

    table: str
    features: tuple[str, ...]
    access: str  # "read" | "write" | "upgrade"
    reason: str = ""
    cure: str = "Use an engine that does, or drop the feature from the table."

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return (
            f"cannot {self.access} {redact(self.table)}: it needs "
            f"{', '.join(self.features)}, which lazydelta does not support{why}. {self.cure}"
        )


@dataclass(eq=False)
class UnsupportedActionError(DeltaError, NotImplementedError):
    """An unknown action, where it may be neither ignored nor lost."""

    table: str
    version: int
    action: str
    reason: str = "the lazy scan may not ignore in this mode"
    cure: str = 'Set enable_fallback=True or tripwire="protocol".'

    def __str__(self) -> str:
        return (
            f"version {self.version} of {redact(self.table)} has the action {self.action!r}, which "
            f"{self.reason}. {self.cure}"
        )


@dataclass(eq=False)
class RetentionGuardError(DeltaError, RuntimeError):
    """`Config.retention_guard` refused a scan that reads from this version on."""

    table: str
    floor_version: int

    def __str__(self) -> str:
        return (
            f"the retention guard refused to scan {redact(self.table)} back to version "
            f"{self.floor_version}. Write a newer checkpoint, or relax the guard."
        )


@dataclass(eq=False)
class PathNotAllowedError(DeltaError, PermissionError):
    """A path of the log is outside the table's root, and not in `Config.allowed_roots`."""

    table: str
    path: str
    reason: str

    def __str__(self) -> str:
        return (
            f"refused to open {redact(self.path)!r} from the log of {redact(self.table)}: "
            f"{self.reason}. If the table may refer to it, as a shallow clone does, add the "
            "location to Config(allowed_roots=...)."
        )
