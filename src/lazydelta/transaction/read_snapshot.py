"""Read snapshot of a transaction: the version it was planned on, and the winning commits since.

Loads parts of the snapshot only where a commit needs them: row ids, in-commit timestamps and
application transactions. Winning commits extend its segment, so the version before the new commit
is known without another listing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count, takewhile
from typing import TYPE_CHECKING

from lazydelta.errors import (
    InvalidCommitError,
    LogCorruptError,
    TableExistsError,
    VersionCleanedUpError,
)
from lazydelta.log import CommitReader, LogFile, LogFileKind, list_log
from lazydelta.protocol import CommitInfo, MalformedActionError
from lazydelta.transaction import tuning
from lazydelta.transaction.table_state import TableState, row_id_high_water_mark

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction.transaction import Transaction

__all__ = ["ReadSnapshot", "commit_file", "validate_newest_commit"]


def commit_file(version: int) -> LogFile:
    """Return the log file of a commit whose size and time are not known."""
    name = f"{version:020d}.json"
    return LogFile(name=name, kind=LogFileKind.COMMIT, version=version, size=0, modified_ms=0)


def validate_newest_commit(snapshot: SnapshotState) -> None:
    """Refuse a table whose newest commit cannot be decoded.

    A version checksum lets a table load without its newest commit. A writer must not add versions
    on top of one that no reader can replay.

    Raises:
        LogCorruptError: The commit is empty, truncated or not JSON.
    """
    commits = snapshot.segment.commits
    if commits and commits[-1].version == snapshot.version:
        snapshot.commits.validate(commits[-1])


class ReadSnapshot:
    """The snapshot that a transaction was planned on, and the commits that were made after it."""

    def __init__(
        self, transaction: Transaction, store: Store, config: Config, snapshot: SnapshotState | None
    ) -> None:
        self._transaction = transaction
        self._store = store
        self._snapshot = snapshot
        self._rebased: list[LogFile] = []
        self._read: dict[int, LogFile] = {}
        self._state: TableState | None = None
        shared = snapshot is not None and snapshot.store is store
        self.reader = snapshot.commits if shared and snapshot else CommitReader(store, config)
        self.version = -1 if snapshot is None else snapshot.version

    def state(self) -> TableState:
        """Return the table state that the transaction was planned on.

        Raises:
            LogCorruptError: The newest commit is damaged.
            InvalidCommitError: There is no table, and the transaction does not create one.
        """
        snapshot = self._snapshot
        if snapshot is None:
            self._state = self._new_table()
            return self._state
        validate_newest_commit(snapshot)
        state = TableState.of_snapshot(snapshot, self._store.root)
        if state.supports("rowTracking") and self._transaction.has_files:  # a rebase may add files
            state = replace(state, row_id_high_water_mark=self._row_id_high_water_mark(snapshot))
        after = state.with_actions(self._transaction.protocol, self._transaction.metadata)
        if after.in_commit_timestamps:
            timestamp = self._timestamp(snapshot, in_commit=state.in_commit_timestamps)
            state = replace(state, timestamp_ms=timestamp)
        self._state = state
        return state

    def is_applied(self) -> bool:
        """Whether the snapshot has this version of the application transaction already."""
        txns = self._transaction.txns
        if self._snapshot is None or not txns:
            return False
        latest = self._snapshot.transactions()
        done = [t for t in txns if t.app_id in latest and latest[t.app_id].version >= t.version]
        if done and len(done) < len(txns):
            reason = f"application {done[0].app_id!r} has committed its part already"
            raise InvalidCommitError(self._store.root, reason)
        return bool(done)

    def may_be_outdated(self, now_ms: int) -> bool:
        """Whether later commits may have been made, and removed by log cleanup, in the meantime.

        A put would then succeed at a version that no reader lists. Log cleanup never removes
        commits that are only minutes old, as are those made after a recent listing.
        """
        if self._snapshot is None:
            return True
        return abs(now_ms - self._snapshot.listed_ms) > tuning.FRESH_MS

    def note_read(self, file: LogFile) -> None:
        """Remember a commit that was read, though a listing may not show it yet."""
        self._read[file.version] = file

    def commits_read(self) -> list[LogFile]:
        """Return the commits that were read since the last rebase, without a listing."""
        return [file for version, file in self._read.items() if version >= self._next]

    def commits_listed(self) -> list[LogFile]:
        """Return the commits since the last rebase, up to the first gap.

        A listing may not show the newest ones yet, nor all of them; the next put finds them.
        """
        first = self._next
        listed = list_log(self._store, from_version=first)
        commits = {version: file for version, file in self._read.items() if version >= first}
        commits.update((f.version, f) for f in listed if f.kind is LogFileKind.COMMIT)
        if self._snapshot is None and listed and 0 not in commits:
            raise TableExistsError(self._store.root)  # a table whose first commits are cleaned up
        if commits and first not in commits:
            raise VersionCleanedUpError(self._store.root, first, min(commits), max(commits))
        return list(map(commits.__getitem__, takewhile(commits.__contains__, count(first))))

    @property
    def _next(self) -> int:
        return self.version + len(self._rebased) + 1

    def rebased(self, file: LogFile, state: TableState) -> TableState:
        """Add a winning commit, and return the state after it."""
        self._rebased.append(file)
        self._state = state
        return state

    def snapshot_before(self, version: int) -> SnapshotState | None:
        """Return the snapshot of the version before a commit."""
        if self._snapshot is None or self._state is None or not self._rebased:
            return self._snapshot
        after = tuple(file for file in self._rebased if file.version < version)
        return self._state.applied_to(self._extended(self._snapshot, after))

    def snapshot_after(self, version: int, committed: Transaction) -> SnapshotState | None:
        """Return the snapshot of a commit, without reading it; None for version 0."""
        before = self.snapshot_before(version)
        if before is None:
            return None
        state = TableState.of_snapshot(before, self._store.root)
        state = state.with_actions(committed.protocol, committed.metadata)
        return state.applied_to(self._extended(before, (commit_file(version),)))

    def _extended(self, snapshot: SnapshotState, after: tuple[LogFile, ...]) -> SnapshotState:
        """Return a snapshot with later commits in its segment."""
        segment = snapshot.segment
        extended = replace(
            segment,
            version=segment.version + len(after),
            tail=(*segment.tail, *after),
            commits=(*segment.commits, *after),
        )
        return replace(snapshot, segment=extended, commits=self.reader)

    def _new_table(self) -> TableState:
        protocol, metadata = self._transaction.protocol, self._transaction.metadata
        if protocol is None or metadata is None:
            reason = "the first version of a table needs a protocol and metadata"
            raise InvalidCommitError(self._store.root, reason)
        return TableState.of_new_table(self._store.root, protocol, metadata)

    def _row_id_high_water_mark(self, snapshot: SnapshotState) -> int:
        try:
            return row_id_high_water_mark(snapshot.domain_metadata().values())
        except MalformedActionError as error:
            file = commit_file(snapshot.version)
            raise LogCorruptError(self._store.root, file.path, str(error), file.version) from None

    def _timestamp(self, snapshot: SnapshotState, *, in_commit: bool) -> int | None:
        """Return when the snapshot was committed: its in-commit timestamp, or the file's time."""
        segment, checksum = snapshot.segment, snapshot.checksum
        if not in_commit:
            # A version at a checkpoint is read without its commit, whose time counts all the same.
            at = snapshot.version
            files = segment.commits or list_log(self._store, from_version=at, to_version=at)
            times = [f.modified_ms for f in files if f.kind is LogFileKind.COMMIT]
            return times[-1] if times else None
        if (
            checksum is not None
            and checksum.version == snapshot.version
            and checksum.in_commit_timestamp
        ):
            return checksum.in_commit_timestamp
        file = segment.commits[-1] if segment.commits else commit_file(snapshot.version)
        for info in self.reader.find(file, ("commitInfo",))["commitInfo"]:
            stated = CommitInfo.from_json(info, version=file.version).in_commit_timestamp
            if stated is not None:
                return stated
        raise LogCorruptError(
            self._store.root, file.path, "it has no inCommitTimestamp", file.version
        )
