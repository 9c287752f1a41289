"""The slice of `_delta_log` that rebuilds one version: at most one checkpoint, then commits.

Chosen from file names alone: nothing here opens a file or knows what an action is.
`log.listing` finds the names; `log.read` turns the segment into Arrow batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta.errors import (
    LogGapError,
    TableNotFoundError,
    VersionCleanedUpError,
    VersionNotCommittedError,
)
from lazydelta.log.file_names import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFile, LogFileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["CheckpointFiles", "LogSegment", "choose_segment"]

_MOST_MISSING = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """One complete checkpoint: a single file, or every part of a multi-part one, in order."""

    version: int
    files: tuple[LogFile, ...]

    @property
    def name(self) -> str:
        """The name of its first file, which identifies it."""
        return self.files[0].name

    def may_include(self, path: str) -> bool:
        """Whether a file of the log is one of its files, or perhaps one of its sidecars."""
        sidecars = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/"
        return path.startswith(sidecars) or any(path == file.path for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """What must be read to rebuild `version`.

    1. `checkpoint` is complete and not newer than `version`; None means the tail starts at 0.
    2. `tail` covers every version after the checkpoint up to `version` exactly once, ascending;
       a file of it is a commit or, where one fits, a compaction of several.
    3. `commits` is the same tail without compactions: what has one file per version.
    4. `checksum` is the newest `.crc` not newer than `version`.
    """

    table: str
    version: int
    checkpoint: CheckpointFiles | None
    tail: tuple[LogFile, ...]
    commits: tuple[LogFile, ...]
    checksum: LogFile | None = None
    excluded: frozenset[str] = frozenset()
    """Names of checkpoints that were left out because they are damaged."""

    @property
    def floor(self) -> int:
        """The version the tail stands on: the checkpoint's, or -1 when there is none."""
        return -1 if self.checkpoint is None else self.checkpoint.version

    def commits_of(self, compacted: LogFile) -> tuple[LogFile, ...]:
        """Return the commits that a compaction of the tail stands for."""
        first = self.floor + 1
        return self.commits[compacted.version - first : compacted.end_version - first + 1]

    def without(self, damaged: str) -> LogSegment | None:
        """Return the same without compactions if one of them is damaged; None if it is none."""
        compacted = (file for file in self.tail if file.kind is LogFileKind.COMPACTED)
        if all(file.path != damaged for file in compacted):
            return None
        return replace(self, tail=self.commits)


def choose_segment(
    table: str,
    files: Sequence[LogFile],
    *,
    version: int | None,
    use_compaction: bool,
    excluded: frozenset[str] = frozenset(),
) -> LogSegment:
    """Pick the newest complete checkpoint at or below the version, and the commits above it.

    Args:
        table: Its address, for errors.
        files: A listing that reaches back to a usable checkpoint, or to version 0.
        version: The version wanted; None means the newest there is.
        use_compaction: Whether compacted commits may stand in for the commits they cover.
        excluded: Checkpoints, by name, that turned out to be unreadable.
    """
    commits = {f.version: f for f in files if f.kind is LogFileKind.COMMIT}
    checkpoints = [c for c in complete_checkpoints(files) if c.name not in excluded]
    if not commits and not checkpoints:
        raise TableNotFoundError(table)
    latest = max([*commits, *(c.version for c in checkpoints)])
    target = latest if version is None else version
    if target > latest or target < 0:
        earliest = _earliest(commits, checkpoints)
        raise VersionNotCommittedError(table, target, earliest, latest)
    usable = [c for c in checkpoints if c.version <= target]
    floor = usable[0].version if usable else -1
    missing = _missing(commits, floor + 1, target)
    if missing:
        earliest = _earliest(commits, checkpoints)
        if floor == -1 and 0 in missing and target < earliest:
            raise VersionCleanedUpError(table, target, earliest, latest)
        raise LogGapError(table, missing, target)
    ordered = tuple(commits[v] for v in range(floor + 1, target + 1))
    return LogSegment(
        table=table,
        version=target,
        checkpoint=usable[0] if usable else None,
        tail=_cover(ordered, files, target) if use_compaction else ordered,
        commits=ordered,
        checksum=_newest_checksum(files, target),
        excluded=excluded,
    )


def complete_checkpoints(files: Iterable[LogFile]) -> list[CheckpointFiles]:
    """Return the checkpoints all of whose files are there and not empty, newest first.

    At one version a single file comes before a multi-part set, and names decide the rest, so
    that every reader of a listing makes the same choice.
    """
    found: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in files:
        if file.size == 0:
            continue
        if file.kind in (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.V2_CHECKPOINT):
            found.append(CheckpointFiles(version=file.version, files=(file,)))
        elif file.kind is LogFileKind.MULTIPART_CHECKPOINT:
            parts.setdefault((file.version, file.parts), {})[file.part] = file
    for (version, count), have in parts.items():
        if len(have) == count:
            files_in_order = tuple(have[part] for part in range(1, count + 1))
            found.append(CheckpointFiles(version=version, files=files_in_order))
    return sorted(found, key=lambda c: (-c.version, len(c.files), c.name))


def earliest_version(files: Sequence[LogFile]) -> int:
    """Return the oldest version that a listing from 0 on can rebuild."""
    commits = {f.version: f for f in files if f.kind is LogFileKind.COMMIT}
    return _earliest(commits, complete_checkpoints(files))


def _earliest(commits: dict[int, LogFile], checkpoints: Sequence[CheckpointFiles]) -> int:
    if 0 in commits:
        return 0
    return min((c.version for c in checkpoints), default=min(commits, default=0))


def _missing(commits: Collection[int], first: int, last: int) -> tuple[int, ...]:
    """Return the versions that are not there, the first of them if there are very many."""
    present = sorted(version for version in commits if first <= version <= last)
    missing: list[int] = []
    for version in [*present, last + 1]:
        missing += range(first, min(version, first + _MOST_MISSING))
        first = version + 1
        if len(missing) >= _MOST_MISSING:
            break
    return tuple(missing[:_MOST_MISSING])


def _cover(
    commits: tuple[LogFile, ...], files: Sequence[LogFile], target: int
) -> tuple[LogFile, ...]:
    """Replace runs of commits by compactions that lie wholly within them, widest first."""
    if not commits:
        return commits
    first = commits[0].version
    widest: dict[int, LogFile] = {}
    for file in files:
        if file.kind is LogFileKind.COMPACTED and file.size and first <= file.version:
            known = widest.get(file.version)
            if file.end_version <= target and (
                known is None or file.end_version > known.end_version
            ):
                widest[file.version] = file
    cover: list[LogFile] = []
    position = 0
    while position < len(commits):
        file = widest.get(commits[position].version, commits[position])
        cover.append(file)
        position = file.last_version - first + 1
    return tuple(cover)


def _newest_checksum(files: Sequence[LogFile], target: int) -> LogFile | None:
    found = [f for f in files if f.kind is LogFileKind.CHECKSUM and f.version <= target]
    return max(found, key=lambda f: f.version, default=None)
