"""The verbs of `Table` that maintain its files and its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta import checkpoint
from lazydelta.operations import maintenance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from lazydelta.checkpoint import LogCleanupResult
    from lazydelta.config import Config
    from lazydelta.operations.maintenance import (
        HealthReport,
        Maintained,
        RepairResult,
        RestoreResult,
        VacuumMode,
        VacuumResult,
    )
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["Maintenance"]


class Maintenance:
    """Maintains the table that the subclass has the store of."""

    _store: Store
    _config: Config
    _latest: SnapshotState | None
    _remember: Callable[[SnapshotState | None], None]

    def _maintained(self, commit_metadata: Mapping[str, Any] | None) -> Maintained:
        return maintenance.Maintained(
            store=self._store,
            config=self._config,
            commit_metadata=commit_metadata or {},
            known=self._latest,
            remember=self._remember,
        )

    def vacuum(
        self,
        retention: timedelta | float | str | None = None,
        mode: VacuumMode = "lite",
        *,
        where: Where = None,
        inventory: Any = None,
        keep_versions: Sequence[int] = (),
        dry_run: bool = True,
        force: bool = False,
        record: bool = True,
        commit_metadata: Mapping[str, Any] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> VacuumResult:
        """Delete files that no version inside the retention needs; by default only report them.

        Live files, files that were removed within the retention, their deletion vectors, change
        data files of commits within the retention, and files younger than the retention stay.
        So do hidden names (`_x`, `.x`), and everything outside the table's directory.

        Args:
            retention: A timedelta, hours, or an interval such as "7 days"; by default the
                table's `delta.deletedFileRetentionDuration`.
            mode: "lite" deletes what the log's tombstones name, without listing storage; "full"
                lists storage and finds files of failed writes too.
            where: Only partitions that match this predicate over partition columns.
            inventory: With "full": the objects of the table instead of a listing. A Parquet or
                CSV file, or Arrow data, with the columns `path`, `length`, `isDir` and
                `modificationTime` (milliseconds).
            keep_versions: Older versions whose data files and deletion vectors stay.
            dry_run: Whether to report what would be deleted, and delete nothing.
            force: Whether a retention shorter than the table's is allowed. Files of running
                writers, and of versions that readers still use, may be lost.
            record: Whether VACUUM START and VACUUM END are committed, as Delta Spark does.
            commit_metadata: User metadata for these commits.
            progress: Receives the number of files that were deleted since its last call.

        Raises:
            ConfigError: The retention is too short, or an option is invalid.
            UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        """
        request = maintenance.VacuumRequest(
            retention=retention,
            mode=mode,
            where=where,
            inventory=inventory,
            keep_versions=tuple(keep_versions),
            dry_run=dry_run,
            force=force,
            record=record,
            progress=progress or (lambda _: None),
        )
        return maintenance.vacuum_table(self._maintained(commit_metadata), request)

    def cleanup_log(self, *, dry_run: bool = False, force: bool = False) -> LogCleanupResult:
        """Delete the log files that no version inside `delta.logRetentionDuration` needs.

        Versions that were current within the retention stay readable, and so do those since the
        checkpoint that they need. Commits younger than an hour are never deleted. Without a
        checkpoint that is old enough nothing is deleted. There is no commit.

        Args:
            dry_run: Whether to report what would be deleted, and delete nothing.
            force: Whether to ignore `delta.enableExpiredLogCleanup`.

        Raises:
            ConfigError: `delta.enableExpiredLogCleanup` is false.
            UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        """
        return checkpoint.clean_up_log(self._store, self._config, dry_run=dry_run, force=force)

    def restore(
        self,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        dry_run: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> RestoreResult:
        """Make an older version the newest one, as a new commit: rows, schema and properties.

        Only the log changes. Files that the older version needs must still exist; they are
        checked before the commit.

        Args:
            version: The version to restore.
            timestamp: Restore the version that was the newest one at this time instead.
            ignore_missing_files: Whether to leave out files that do not exist any more.
            protocol_downgrade_allowed: Whether the protocol is restored too. By default the
                table keeps the features that it has.
            dry_run: Whether to check and report, and commit nothing.
            commit_metadata: User metadata for the commit.

        Raises:
            FilesNotFoundError: Files do not exist any more; the error names them.
            VersionNotFoundError: The log does not have the version any more, or yet.
            CommitConflictError: A concurrent commit conflicts with this one.
        """
        request = maintenance.RestoreRequest(
            version=version,
            timestamp=timestamp,
            ignore_missing_files=ignore_missing_files,
            protocol_downgrade_allowed=protocol_downgrade_allowed,
            dry_run=dry_run,
        )
        return maintenance.restore_table(self._maintained(commit_metadata), request)

    def repair(
        self,
        *,
        dry_run: bool = True,
        open_files: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> RepairResult:
        """Remove files from the log that do not exist any more (FSCK REPAIR TABLE).

        Their rows are lost; the others can be read again. A file whose deletion vector is gone is
        removed too, because its deleted rows would come back. Restore files from a backup first if
        there is one. By default only a report.

        Args:
            dry_run: Whether to report what would be removed, and commit nothing.
            open_files: Whether to open every file, and remove those that are not Parquet or
                damaged too.
            commit_metadata: User metadata for the commit.

        Raises:
            AppendOnlyError: The table is append-only.
            CommitConflictError: A concurrent commit conflicts with this one.
        """
        maintained = self._maintained(commit_metadata)
        return maintenance.repair_table(maintained, dry_run=dry_run, open_files=open_files)

    def health(self) -> HealthReport:
        """Return facts about the table's files and log, each with a verdict and its cure.

        Reads the log once, and no data file: sizes, partitions, statistics, clustering, deletion
        vectors, dead files, log and checkpoint, and files that are live by mistake.
        """
        return maintenance.table_health(self._store, self._config, known=self._latest)
