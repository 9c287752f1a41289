"""Log segments: the checkpoint and the commits that build one version.

Selected from file names only; no file is opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

from lazydelta.errors import (
    LogGapError,
    TableNotFoundError,
    VersionCleanedUpError,
    VersionNotCommittedError,
)
from lazydelta.log import tuning
from lazydelta.log.file_names import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFile, LogFileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["CheckpointFiles", "LogSegment", "choose_segment"]


class CheckpointFiles(NamedTuple):
    """One complete checkpoint: a single file, or every part of a multi-part one, in order."""

    version: int
    files: tuple[LogFile, ...]

    @property
    def name(self) -> str:
        """The name of its first file, which identifies it."""
        return self.files[0].name

    def may_include(self, path: str) -> bool:
        """Whether a log file is one of its files, or possibly one of its sidecars."""
        sidecars = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/"
        return path.startswith(sidecars) or any(path == file.path for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files that build `version`.

    1. `checkpoint` is complete and not newer than `version`; None means the tail starts at 0.
    2. `tail` covers every version after the checkpoint up to `version` exactly once, ascending.
       Its files are commits or compacted commits.
    3. `commits` is the same tail without compacted commits: one file per version.
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

    @classmethod
    def from_names(
        cls,
        table: str,
        files: Sequence[LogFile],
        *,
        version: int,
        checkpoint: str | None,
        compacted: Collection[tuple[int, int]],
    ) -> Self | None:
        """Return the segment with this checkpoint and these compactions; None if it is incomplete.

        Args:
            table: The table's URL, for errors.
            files: A listing that starts at the checkpoint's version or before.
            version: The version of the segment.
            checkpoint: The name of the checkpoint; None is a segment without one.
            compacted: The first and last version of each log compaction.
        """
        base = next((c for c in complete_checkpoints(files) if c.name == checkpoint), None)
        first = 0 if base is None else base.version + 1
        commits = {f.version: f for f in files if f.kind is LogFileKind.COMMIT}
        chosen = [f for f in files if f.kind is LogFileKind.COMPACTED]
        chosen = [f for f in chosen if (f.version, f.end_version) in compacted]
        has_base = (base is None) == (checkpoint is None)
        if not has_base or _missing(commits, first, version) or len(chosen) < len(compacted):
            return None
        ordered = tuple(commits[number] for number in range(first, version + 1))
        return cls(
            table=table,
            version=version,
            checkpoint=base,
            tail=_with_compacted(ordered, chosen, version),
            commits=ordered,
            checksum=_newest_checksum(files, version),
        )

    @property
    def base_version(self) -> int:
        """The version before the tail: the checkpoint's, or -1 without a checkpoint."""
        return -1 if self.checkpoint is None else self.checkpoint.version

    def commits_of(self, compacted: LogFile) -> tuple[LogFile, ...]:
        """Return the commits that a compacted file of the tail covers."""
        first = self.base_version + 1
        return self.commits[compacted.version - first : compacted.end_version - first + 1]

    def without(self, damaged: str) -> LogSegment | None:
        """Return the segment without compacted commits; None if `damaged` is not one of them."""
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
    """Select the newest complete checkpoint up to the version, and the commits after it.

    Args:
        table: The table's URL, for errors.
        files: A listing that starts at a usable checkpoint or at version 0.
        version: The requested version; None means the latest.
        use_compaction: Whether compacted commits may replace the commits they cover.
        excluded: Names of unreadable checkpoints.
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
    base = usable[0].version if usable else -1
    missing = _missing(commits, base + 1, target)
    if missing:
        earliest = _earliest(commits, checkpoints)
        if base == -1 and 0 in missing and target < earliest:
            raise VersionCleanedUpError(table, target, earliest, latest)
        raise LogGapError(table, missing, target)
    ordered = tuple(commits[v] for v in range(base + 1, target + 1))
    return LogSegment(
        table=table,
        version=target,
        checkpoint=usable[0] if usable else None,
        tail=_with_compacted(ordered, files, target) if use_compaction else ordered,
        commits=ordered,
        checksum=_newest_checksum(files, target),
        excluded=excluded,
    )


def complete_checkpoints(files: Iterable[LogFile]) -> list[CheckpointFiles]:
    """Return the checkpoints with all files present and not empty, newest first.

    Within a version, a single file precedes a multi-part set, then the name decides: every reader
    of a listing makes the same choice.
    """
    complete: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in files:
        if file.size == 0:
            continue
        if file.kind in (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.V2_CHECKPOINT):
            complete.append(CheckpointFiles(version=file.version, files=(file,)))
        elif file.kind is LogFileKind.MULTIPART_CHECKPOINT:
            parts.setdefault((file.version, file.parts), {})[file.part] = file
    for (version, count), present in parts.items():
        if len(present) == count:
            files_in_order = tuple(present[part] for part in range(1, count + 1))
            complete.append(CheckpointFiles(version=version, files=files_in_order))
    return sorted(complete, key=lambda c: (-c.version, len(c.files), c.name))


def earliest_version(files: Sequence[LogFile]) -> int:
    """Return the oldest version that a listing from version 0 can build."""
    commits = {f.version: f for f in files if f.kind is LogFileKind.COMMIT}
    return _earliest(commits, complete_checkpoints(files))


def _earliest(commits: dict[int, LogFile], checkpoints: Sequence[CheckpointFiles]) -> int:
    if 0 in commits:
        return 0
    return min((c.version for c in checkpoints), default=min(commits, default=0))


def _missing(commits: Collection[int], first: int, last: int) -> tuple[int, ...]:
    """Return the missing versions, at most `tuning.MAX_LISTED_GAP` of them."""
    present = sorted(version for version in commits if first <= version <= last)
    missing: list[int] = []
    for version in [*present, last + 1]:
        missing += range(first, min(version, first + tuning.MAX_LISTED_GAP))
        first = version + 1
        if len(missing) >= tuning.MAX_LISTED_GAP:
            break
    return tuple(missing[: tuning.MAX_LISTED_GAP])


def _with_compacted(
    commits: tuple[LogFile, ...], files: Sequence[LogFile], target: int
) -> tuple[LogFile, ...]:
    """Replace commits by the compacted commits that cover them, widest first."""
    if not commits:
        return commits
    first = commits[0].version
    widest: dict[int, LogFile] = {}
    for file in files:
        if file.kind is LogFileKind.COMPACTED and file.size and first <= file.version:
            other = widest.get(file.version)
            if file.end_version <= target and (
                other is None or file.end_version > other.end_version
            ):
                widest[file.version] = file
    tail: list[LogFile] = []
    position = 0
    while position < len(commits):
        file = widest.get(commits[position].version, commits[position])
        tail.append(file)
        position = file.last_version - first + 1
    return tuple(tail)


def _newest_checksum(files: Sequence[LogFile], target: int) -> LogFile | None:
    checksums = [f for f in files if f.kind is LogFileKind.CHECKSUM and f.version <= target]
    return max(checksums, key=lambda f: f.version, default=None)
