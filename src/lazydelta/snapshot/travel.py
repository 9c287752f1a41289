"""The past of a table: its commits, and the version that was current at a time.

A commit's time is its in-commit timestamp where the table has them, else the file's modification
time, made strictly increasing because copies and clocks are not. The two are never compared in
one search: the table records at which version it changed over.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError, LogCorruptError, TableNotFoundError, TimestampNotFoundError
from lazydelta.log import CommitReader, LogFile, LogFileKind, earliest_version, list_log
from lazydelta.snapshot.load import load_snapshot
from lazydelta.spec import CommitInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = ["read_history", "version_at"]


def read_history(store: Store, config: Config, *, limit: int | None = None) -> list[CommitInfo]:
    """Return what the retained commits say of themselves, newest first."""
    commits = [f for f in list_log(store) if f.kind is LogFileKind.COMMIT]
    if not commits:
        raise TableNotFoundError(store.root)
    newest_first = commits[::-1][:limit]
    reader = CommitReader(store, config)
    infos = []
    for file, actions in reader.find_each(newest_first, ("commitInfo",)):
        stated = next(islice(actions["commitInfo"], 1), {})
        info = CommitInfo.from_json(stated, version=file.version)
        if info.timestamp is None:
            when = info.in_commit_timestamp or file.modified_ms
            info = CommitInfo(
                version=file.version,
                timestamp=when,
                operation=info.operation,
                in_commit_timestamp=info.in_commit_timestamp,
                raw=info.raw,
            )
        infos.append(info)
    return infos


def version_at(store: Store, config: Config, when: datetime | str) -> int:
    """Return the newest version committed at or before a time (naive times are UTC).

    Raises:
        TimestampNotFoundError: The time lies before the table, before what log cleanup left, or
            in the future, when the answer may still change.
    """
    moment = _parse(when)
    files = list_log(store)
    commits = [f for f in files if f.kind is LogFileKind.COMMIT]
    if not commits:
        raise TableNotFoundError(store.root)
    earliest = earliest_version(files)
    commits = [f for f in commits if f.version >= earliest]
    target = int(moment.timestamp() * 1000)
    clock = _Clock(store, config, commits)
    position = clock.last_not_after(target)
    now = datetime.now(UTC)
    if position >= 0 and moment <= now:
        return commits[position].version
    kind = "not-yet" if position >= 0 else "before-table" if earliest == 0 else "cleaned-up"
    raise TimestampNotFoundError(
        store.root,
        moment.isoformat(),
        kind,
        _text(clock.time_of(0)),
        _text(clock.time_of(len(commits) - 1)),
    )


def _parse(when: datetime | str) -> datetime:
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) else when
    except ValueError:
        raise ConfigError("timestamp", f"cannot be {when!r}: give an ISO 8601 time") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


class _Clock:
    """Commit times of a run of commits, each looked up only when a search needs it."""

    def __init__(self, store: Store, config: Config, commits: Sequence[LogFile]) -> None:
        self._store = store
        self._commits = commits
        self._reader = CommitReader(store, config)
        properties = load_snapshot(store, config).properties
        # From this position on commits carry their own time; none do where it is past the end.
        self._changeover = len(commits)
        if properties.in_commit_timestamps:
            since = properties.in_commit_timestamps_since_version or 0
            self._changeover = sum(file.version < since for file in commits)
        self._file_times = _strictly_increasing([f.modified_ms for f in commits])

    def time_of(self, position: int) -> int:
        """Return when the commit at a position was made, in milliseconds."""
        if position < self._changeover:
            return self._file_times[position]
        file = self._commits[position]
        for info in self._reader.find(file, ("commitInfo",))["commitInfo"]:
            stated = CommitInfo.from_json(info, version=file.version).in_commit_timestamp
            if stated is not None:
                return stated
        raise LogCorruptError(
            self._store.root, file.path, "it has no inCommitTimestamp", file.version
        )

    def last_not_after(self, target: int) -> int:
        """Return the position of the last commit at or before a time, -1 if there is none."""
        first = self._changeover
        if first < len(self._commits) and self.time_of(first) <= target:
            return _last(self.time_of, first, len(self._commits), target)
        return bisect_right(self._file_times, target, 0, first) - 1


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
    rising: list[int] = []
    for time in times:
        rising.append(time if not rising or time > rising[-1] else rising[-1] + 1)
    return rising
