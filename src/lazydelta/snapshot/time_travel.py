"""Time travel and history: the version at a timestamp, and the retained commits.

The time of a commit is its in-commit timestamp if enabled, otherwise the file's modification time,
adjusted to be strictly increasing. A search never compares the two: the table records the version
that enabled in-commit timestamps.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lazydelta.errors import (
    ConfigError,
    DeltaError,
    LogCorruptError,
    TimestampNotFoundError,
)
from lazydelta.log import CommitReader, LogFile, LogFileKind, earliest_version, list_log
from lazydelta.protocol import CommitInfo
from lazydelta.schema.values import format_timestamp
from lazydelta.snapshot.load import load_snapshot
from lazydelta.snapshot.not_found import table_not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.snapshot.snapshot_state import SnapshotState
    from lazydelta.store import Store

__all__ = [
    "HistoryEntry",
    "file_times",
    "parse_timestamp",
    "read_history",
    "version_at",
    "version_since",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One retained commit, as `Table.history` lists it."""

    version: int
    timestamp: datetime | None
    """The commit time that time travel uses, in UTC; None if it is outside the range of `datetime`.

    The in-commit timestamp if enabled, otherwise the file's modification time, adjusted to be
    strictly increasing. The writer's own `commitInfo.timestamp` is in `raw`.
    """
    operation: str | None
    raw: Mapping[str, Any]
    """The `commitInfo` action as written; empty if the commit has none."""


def read_history(store: Store, config: Config, *, limit: int | None = None) -> list[HistoryEntry]:
    """Return the retained commits, newest first, with the times that time travel uses."""
    files = list_log(store)
    commits = [f for f in files if f.kind is LogFileKind.COMMIT]
    if not commits:
        raise table_not_found(store.root)
    times: dict[int, int | None] = {f.version: f.modified_ms for f in commits}
    with suppress(DeltaError):  # a table that cannot be loaded has no time travel, but a history
        earliest = earliest_version(files)
        readable = [f for f in commits if f.version >= earliest]
        adjusted = file_times(readable, load_snapshot(store, config))
        times |= zip((f.version for f in readable), adjusted, strict=True)
    entries = []
    for file, actions in CommitReader(store, config).find_each(
        commits[::-1][:limit], ("commitInfo",)
    ):
        info = CommitInfo.from_json(next(iter(actions["commitInfo"]), {}), version=file.version)
        time = times[file.version]
        if time is None:  # a commit without its in-commit timestamp is listed all the same
            time = (
                file.modified_ms if info.in_commit_timestamp is None else info.in_commit_timestamp
            )
        entries.append(
            HistoryEntry(
                version=file.version,
                timestamp=_datetime(time),
                operation=info.operation,
                raw=info.raw,
            )
        )
    return entries


def version_at(store: Store, config: Config, when: datetime | str) -> int:
    """Return the newest version committed at or before a timestamp (naive ones are UTC).

    Raises:
        TimestampNotFoundError: The timestamp is before the table, before the retained commits, or
            in the future, where the result could still change.
    """
    moment = parse_timestamp(when)
    log = _RetainedLog(store, config)
    target = (moment - _EPOCH) // _MILLISECOND
    position = log.clock.last_not_after(target)
    if position >= 0 and (moment <= datetime.now(UTC) or target <= log.newest_time):
        # Later commits get later times, so a result up to the newest commit's time is final.
        return log.commits[position].version
    raise log.not_found(moment, "not-yet" if position >= 0 else None)


def version_since(store: Store, config: Config, when: datetime | str) -> int:
    """Return the oldest version committed at or after a timestamp (naive ones are UTC).

    Raises:
        TimestampNotFoundError: No commit is that new, or log cleanup may have removed it.
    """
    moment = parse_timestamp(when)
    log = _RetainedLog(store, config)
    first = -(-(moment - _EPOCH) // _MILLISECOND)  # a commit's time has no microseconds
    position = log.clock.last_not_after(first - 1) + 1
    if position == len(log.commits):
        raise log.not_found(moment, "not-yet")
    if position == 0 and log.earliest > 0 and log.clock.time_of(0) > first:
        raise log.not_found(moment, None)
    return log.commits[position].version


def file_times(commits: Sequence[LogFile], snapshot: SnapshotState) -> list[int | None]:
    """Return commit times in milliseconds; None for a commit with an in-commit timestamp.

    Modification times are adjusted to be strictly increasing with the version.

    Args:
        commits: Consecutive commits, ascending.
        snapshot: A snapshot at or after the last of them.
    """
    times = _strictly_increasing([file.modified_ms for file in commits])
    enabled_from = _in_commit_position(commits, snapshot)
    return [time if position < enabled_from else None for position, time in enumerate(times)]


class _RetainedLog:
    """The retained commits of readable versions, with their times."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        files = list_log(store)
        commits = [f for f in files if f.kind is LogFileKind.COMMIT]
        if not commits:
            raise table_not_found(store.root)
        self.earliest = earliest_version(files)
        self.commits = [f for f in commits if f.version >= self.earliest]
        self.clock = _Clock(store, config, self.commits)

    @property
    def newest_time(self) -> int:
        """The time of the newest commit, in milliseconds."""
        return self.clock.time_of(len(self.commits) - 1)

    def not_found(self, moment: datetime, kind: str | None) -> TimestampNotFoundError:
        """Return the error for a timestamp, by default one before the first commit."""
        return TimestampNotFoundError(
            self._store.root,
            moment.isoformat(),
            kind or ("before-table" if self.earliest == 0 else "cleaned-up"),
            _format(self.clock.time_of(0)),
            _format(self.newest_time),
        )


def parse_timestamp(when: datetime | str) -> datetime:
    """Return a timestamp in UTC; a naive one is UTC already.

    Raises:
        ConfigError: It is not a timestamp, or out of range.
    """
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) else when
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # conversion to UTC may leave the range of `datetime`
        reason = "give an ISO 8601 timestamp"
    except (AttributeError, TypeError):
        reason = "give a datetime or an ISO 8601 string"
    raise ConfigError("timestamp", f"cannot be {when!r}: {reason}")


def _datetime(milliseconds: int) -> datetime | None:
    try:
        return _EPOCH + milliseconds * _MILLISECOND
    except OverflowError:
        return None


def _format(milliseconds: int) -> str:
    """Format a time of the log, which may be beyond the years of `datetime`."""
    return format_timestamp(milliseconds * 1000)[:-3] + "+00:00"


class _Clock:
    """Commit times of consecutive commits, read lazily."""

    def __init__(self, store: Store, config: Config, commits: Sequence[LogFile]) -> None:
        self._store = store
        self._commits = commits
        self._reader = CommitReader(store, config)
        # Commits from this position have in-commit timestamps; past the end, none has.
        self._enabled_from = _in_commit_position(commits, load_snapshot(store, config))
        self._file_times = _strictly_increasing([f.modified_ms for f in commits])

    def time_of(self, position: int) -> int:
        """Return the time of the commit at a position, in milliseconds."""
        if position < self._enabled_from:
            return self._file_times[position]
        file = self._commits[position]
        for info in self._reader.find(file, ("commitInfo",))["commitInfo"]:
            timestamp = CommitInfo.from_json(info, version=file.version).in_commit_timestamp
            if timestamp is not None:
                return timestamp
        raise LogCorruptError(
            self._store.root, file.path, "it has no inCommitTimestamp", file.version
        )

    def last_not_after(self, target: int) -> int:
        """Return the position of the last commit at or before a time, -1 if there is none."""
        first = self._enabled_from
        if first < len(self._commits) and self.time_of(first) <= target:
            return _last(self.time_of, first, len(self._commits), target)
        return bisect_right(self._file_times, target, 0, first) - 1


def _in_commit_position(commits: Sequence[LogFile], snapshot: SnapshotState) -> int:
    """Return the first position with in-commit timestamps."""
    if not snapshot.in_commit_timestamps:
        return len(commits)
    since = snapshot.properties.in_commit_timestamps_since_version or 0
    return sum(file.version < since for file in commits)


def _last(time_of: Callable[[int], int], low: int, high: int, target: int) -> int:
    """Return the last position in [low, high) whose time is at or before the target."""
    while low < high:
        middle = (low + high) // 2
        if time_of(middle) <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _strictly_increasing(times: Sequence[int]) -> list[int]:
    adjusted: list[int] = []
    for time in times:
        adjusted.append(time if not adjusted or time > adjusted[-1] else adjusted[-1] + 1)
    return adjusted
