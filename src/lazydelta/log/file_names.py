"""Parse and build file names of `_delta_log`.

`parse_name` returns None for any other file (temporary files, sidecars, staged commits), so a stray
file never becomes a version.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

__all__ = [
    "LAST_CHECKPOINT",
    "LOG_DIRECTORY",
    "SIDECAR_DIRECTORY",
    "LogFile",
    "LogFileKind",
    "checkpoint_path",
    "checksum_path",
    "compacted_path",
    "parse_name",
    "sidecar_path",
]

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
SIDECAR_DIRECTORY = "_sidecars"

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    r"(?P<version>[0-9]{20})\.(?:"
    r"(?P<commit>json)"
    r"|(?P<checksum>crc)"
    r"|checkpoint\.(?P<classic>parquet)"
    r"|checkpoint\.(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.parquet"
    rf"|checkpoint\.(?P<uuid>{_UUID})\.(?:json|parquet)"
    r"|(?P<end>[0-9]{20})\.compacted\.json"
    r")",
    re.ASCII,
)
_MAX_VERSION = 2**63 - 1


class LogFileKind(Enum):
    """The kind of a log file."""

    COMMIT = "commit"
    CHECKSUM = "checksum"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTIPART_CHECKPOINT = "part of a multi-part checkpoint"
    V2_CHECKPOINT = "V2 checkpoint"
    COMPACTED = "compacted commits"


class LogFile(NamedTuple):
    """One file of the log, with the parsed parts of its name."""

    name: str
    kind: LogFileKind
    version: int
    size: int
    modified_ms: int
    part: int = 0
    parts: int = 0
    end_version: int = -1

    @property
    def path(self) -> str:
        """The path relative to the table's root."""
        return f"{LOG_DIRECTORY}/{self.name}"

    @property
    def first_version(self) -> int:
        """The oldest version of its actions, for commits and compacted commits."""
        return self.version

    @property
    def last_version(self) -> int:
        """The newest version of its actions."""
        return max(self.version, self.end_version)


def checksum_path(version: int) -> str:
    """Return the path of the checksum of a version.

    >>> checksum_path(7)
    '_delta_log/00000000000000000007.crc'
    """
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def checkpoint_path(version: int, unique: str | None = None, suffix: str = "parquet") -> str:
    """Return the path of a classic checkpoint, or of a V2 checkpoint with a unique name."""
    infix = "" if unique is None else f".{unique}"
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint{infix}.{suffix}"


def sidecar_path(name: str) -> str:
    """Return the path of a sidecar."""
    return f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{name}"


def compacted_path(first: int, last: int) -> str:
    """Return the path of the compacted commits of a range of versions."""
    return f"{LOG_DIRECTORY}/{first:020d}.{last:020d}.compacted.json"


def parse_name(name: str, *, size: int, modified_ms: int) -> LogFile | None:
    """Parse the name of a file of `_delta_log`; None if it is not a log file.

    >>> parse_name("00000000000000000007.json", size=1, modified_ms=0).version
    7
    >>> parse_name("7.json", size=1, modified_ms=0) is None
    True
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = int(match["version"])
    kind, part, parts, end = _kind(match)
    overflows = version > _MAX_VERSION or end > _MAX_VERSION
    if overflows or (parts and not 1 <= part <= parts) or (end >= 0 and end <= version):
        return None
    return LogFile(
        name=name,
        kind=kind,
        version=version,
        size=size,
        modified_ms=modified_ms,
        part=part,
        parts=parts,
        end_version=end,
    )


def _kind(match: re.Match[str]) -> tuple[LogFileKind, int, int, int]:
    if match["commit"]:
        return LogFileKind.COMMIT, 0, 0, -1
    if match["checksum"]:
        return LogFileKind.CHECKSUM, 0, 0, -1
    if match["classic"]:
        return LogFileKind.CLASSIC_CHECKPOINT, 0, 0, -1
    if match["part"]:
        return LogFileKind.MULTIPART_CHECKPOINT, int(match["part"]), int(match["parts"]), -1
    if match["uuid"]:
        return LogFileKind.V2_CHECKPOINT, 0, 0, -1
    return LogFileKind.COMPACTED, 0, 0, int(match["end"])
