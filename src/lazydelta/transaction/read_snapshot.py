"""The version that a transaction was planned on, and what is read of it when a commit needs it.

Most commits need nothing: no row ids, no in-commit timestamps, no applications. Winners of lost
races are put behind its segment, so the version before the commit is known without another look.
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
from lazydelta.protocol import CommitInfo, MalformedActionError, PathResolver, TableProperties
from lazydelta.schema import parse_schema
from lazydelta.transaction.transaction_state import NO_ROW_IDS, Standing, row_id_mark

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction.transaction import Transaction

__all__ = ["Base", "commit_file"]

_FRESH_MS = 10 * 60 * 1000


def commit_file(version: int) -> LogFile:
    """Return the file of a commit, known by its version alone; it is read whole."""
    name = f"{version:020d}.json"
    return LogFile(name=name, kind=LogFileKind.COMMIT, version=version, size=0, modified_ms=0)


class Base:
    """What a transaction was planned on, and the commits that came after it."""

    def __init__(
        self, transaction: Transaction, store: Store, config: Config, snapshot: SnapshotState | None
    ) -> None:
        self._transaction = transaction
        self._store = store
        self._snapshot = snapshot
        self._after: list[LogFile] = []
        self._seen: dict[int, LogFile] = {}
        self._standing: Standing | None = None
        shared = snapshot is not None and snapshot.store is store
        self.reader = snapshot.commits if shared and snapshot else CommitReader(store, config)
        self.version = -1 if snapshot is None else snapshot.version

    def standing(self) -> Standing:
        """Return what the transaction stands on at first."""
        snapshot = self._snapshot
        if snapshot is None:
            self._standing = self._nothing()
            return self._standing
        standing = Standing(
            table=self._store.root,
            version=snapshot.version,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            schema=snapshot.schema,
            properties=snapshot.properties,
            resolver=snapshot.resolver,
        )
        if standing.supports("rowTracking") and self._transaction.adds.num_rows:
            standing = replace(standing, row_id_mark=self._row_id_mark(snapshot))
        after = standing.with_actions(self._transaction.protocol, self._transaction.metadata)
        if after.in_commit_timestamps:
            time = self._last_time(snapshot, carried=standing.in_commit_timestamps)
            standing = replace(standing, timestamp_ms=time)
        self._standing = standing
        return standing

    def is_applied(self) -> bool:
        """Whether the application says in the base already that it did this step."""
        txns = self._transaction.txns
        if self._snapshot is None or not txns:
            return False
        known = self._snapshot.transactions()
        done = [t for t in txns if t.app_id in known and known[t.app_id].version >= t.version]
        if done and len(done) < len(txns):
            reason = f"application {done[0].app_id!r} has done its part of it already"
            raise InvalidCommitError(self._store.root, reason)
        return bool(done)

    def may_be_overtaken(self, now_ms: int) -> bool:
        """Whether commits after the base may have come, and been cleaned up, in the meantime.

        A put would then succeed at a version that nobody reads. No cleanup takes what is newer
        than the newest commit of the base while that one is minutes old.
        """
        if self._snapshot is None or not self._snapshot.segment.commits:
            return True
        return now_ms - self._snapshot.segment.commits[-1].modified_ms > _FRESH_MS

    def saw(self, file: LogFile) -> None:
        """Remember a commit that was read, though a listing may not show it yet."""
        self._seen[file.version] = file

    def commits_seen(self) -> list[LogFile]:
        """Return the commits that were read and not taken in yet, without asking for others."""
        return [file for version, file in self._seen.items() if version >= self._next]

    def commits_since(self) -> list[LogFile]:
        """Return the commits after those taken in, as far as there is no gap.

        A listing may not show the newest ones yet, nor all of them; the next put will find them.
        """
        first = self._next
        listed = list_log(self._store, from_version=first)
        found = {version: file for version, file in self._seen.items() if version >= first}
        found.update((f.version, f) for f in listed if f.kind is LogFileKind.COMMIT)
        if self._snapshot is None and listed and 0 not in found:
            raise TableExistsError(self._store.root)  # a table whose first commits are cleaned up
        if found and first not in found:
            raise VersionCleanedUpError(self._store.root, first, min(found), max(found))
        return list(map(found.__getitem__, takewhile(found.__contains__, count(first))))

    @property
    def _next(self) -> int:
        return self.version + len(self._after) + 1

    def advanced(self, file: LogFile, standing: Standing) -> Standing:
        """Take in a winner, and return what is stood on after it."""
        self._after.append(file)
        self._standing = standing
        return standing

    def snapshot_before(self, version: int) -> SnapshotState | None:
        """Return the version that a commit followed."""
        if self._snapshot is None or self._standing is None or not self._after:
            return self._snapshot
        after = tuple(file for file in self._after if file.version < version)
        segment = self._snapshot.segment
        return replace(
            self._snapshot,
            segment=replace(
                segment,
                version=segment.version + len(after),
                tail=(*segment.tail, *after),
                commits=(*segment.commits, *after),
            ),
            protocol=self._standing.protocol,
            metadata=self._standing.metadata,
            schema=self._standing.schema,
            properties=self._standing.properties,
            commits=self.reader,
        )

    def _nothing(self) -> Standing:
        protocol, metadata = self._transaction.protocol, self._transaction.metadata
        table = self._store.root
        if protocol is None or metadata is None:
            reason = "the first version of a table needs a protocol and metadata"
            raise InvalidCommitError(table, reason)
        return Standing(
            table=table,
            version=-1,
            protocol=protocol,
            metadata=metadata,
            schema=parse_schema(metadata.schema_string, where=table),
            properties=TableProperties.parse(metadata.configuration),
            resolver=PathResolver(table),
            row_id_mark=NO_ROW_IDS,
        )

    def _row_id_mark(self, snapshot: SnapshotState) -> int:
        try:
            return row_id_mark(snapshot.domain_metadata().values())
        except MalformedActionError as error:
            file = commit_file(snapshot.version)
            raise LogCorruptError(self._store.root, file.path, str(error), file.version) from None

    def _last_time(self, snapshot: SnapshotState, *, carried: bool) -> int | None:
        """Return when the base was committed: as it says itself, or as the store says."""
        segment, known = snapshot.segment, snapshot.checksum
        if not carried:
            # A version at a checkpoint is read without its commit, whose time counts all the same.
            at = snapshot.version
            files = segment.commits or list_log(self._store, from_version=at, to_version=at)
            times = [f.modified_ms for f in files if f.kind is LogFileKind.COMMIT]
            return times[-1] if times else None
        if known is not None and known.version == snapshot.version and known.in_commit_timestamp:
            return known.in_commit_timestamp
        file = segment.commits[-1] if segment.commits else commit_file(snapshot.version)
        for info in self.reader.find(file, ("commitInfo",))["commitInfo"]:
            stated = CommitInfo.from_json(info, version=file.version).in_commit_timestamp
            if stated is not None:
                return stated
        raise LogCorruptError(
            self._store.root, file.path, "it has no inCommitTimestamp", file.version
        )
