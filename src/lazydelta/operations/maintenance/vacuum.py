"""VACUUM: delete the files that no retained version of a table needs.

The files are found first and kept in a bounded spool. Then they are deleted, between two commits
that Delta Spark writes as well: VACUUM START and VACUUM END. The result states what the store
confirmed.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import orjson
import pyarrow.compute as pc

from lazydelta._arrow import from_mask
from lazydelta._memory import release_memory
from lazydelta.config import validate_integer
from lazydelta.errors import ConfigError, SchemaError, StoreError
from lazydelta.log import LOG_DIRECTORY
from lazydelta.operations.maintenance import tuning
from lazydelta.operations.maintenance.dead_files import DeadFiles
from lazydelta.operations.maintenance.file_deletion import Deletion, delete_files
from lazydelta.operations.maintenance.file_rules import PartitionScope, below_mask
from lazydelta.operations.maintenance.retained_files import (
    RetainedFiles,
    RetainedVersions,
    files_added_since,
)
from lazydelta.protocol import Retention, parse_interval
from lazydelta.replay import BatchSpool
from lazydelta.store import is_local
from lazydelta.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import numpy as np
    import pyarrow as pa

    from lazydelta.operations.maintenance.request import Maintained
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = [
    "FoundFiles",
    "VacuumMode",
    "VacuumRequest",
    "VacuumResult",
    "incomplete_log",
    "next_version",
    "skipped_tables",
    "vacuum_table",
]

logger = logging.getLogger(__name__)

VacuumMode = Literal["lite", "full"]
_LAST_VACUUM = f"{LOG_DIRECTORY}/_last_vacuum_info"
_LAST_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumRequest:
    """The options of a VACUUM, as `Table.vacuum` documents them."""

    retention: timedelta | float | str | None = None
    mode: VacuumMode = "lite"
    where: Where = None
    inventory: Any = None
    keep_versions: Sequence[int] = ()
    dry_run: bool = True
    force: bool = False
    record: bool = True
    progress: Callable[[int], None] = field(default=lambda _: None, repr=False)

    def __post_init__(self) -> None:
        """Validate the options that do not depend on the table."""
        if self.mode not in ("lite", "full"):
            raise ConfigError("mode", f"must be 'lite' or 'full', not {self.mode!r}")
        if self.inventory is not None and self.mode != "full":
            raise ConfigError("inventory", 'replaces a listing: use it with mode="full"')
        for version in self.keep_versions:
            validate_integer("keep_versions", version, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumResult:
    """What a VACUUM deleted, or would delete."""

    table: str
    version: int
    """The version whose log was read, or the one of VACUUM END."""
    mode: VacuumMode
    dry_run: bool
    retention_seconds: float
    cutoff: datetime
    """Files that were removed from the table before this time are deleted."""
    files_to_delete: int
    bytes_to_delete: int
    """Bytes of the files whose size is known; the log does not have that of every file."""
    files_deleted: int = 0
    """Files whose deletion the store confirmed."""
    may_have_been_gone: bool = False
    """Whether `files_deleted` may count files that were gone before: in lite mode nothing shows
    that a file exists, and object stores confirm the deletion of a missing object as of any."""
    bytes_deleted: int = 0
    files_failed: int = 0
    failures: tuple[str, ...] = ()
    """Path and reason of some failures."""
    paths: tuple[str, ...] = ()
    """Some of the files to delete, relative to the table."""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "cutoff": self.cutoff.isoformat()}


FileSearch: TypeAlias = "Callable[[RetainedVersions, PartitionScope, VacuumRequest], FoundFiles]"
"""Finds the files to delete."""


class FoundFiles(Protocol):
    """The files that a VACUUM deletes."""

    @property
    def files(self) -> int:
        """Their number."""

    @property
    def bytes(self) -> int:
        """Their size, as far as it is known."""

    @property
    def paths(self) -> Sequence[str]:
        """Some of them."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the caller should know about the search."""

    def delete(self, progress: Callable[[int], None]) -> Deletion:
        """Delete them, and return what the store confirmed."""

    def close(self) -> None:
        """Release memory and temporary files."""


def vacuum_table(
    table: Maintained,
    request: VacuumRequest,
    find: FileSearch | None = None,
) -> VacuumResult:
    """Delete the files that no retained version needs.

    Args:
        table: The table.
        request: The options.
        find: Finds the files; by default this process does.

    Raises:
        ConfigError: The retention is shorter than the table's, or an option is invalid.
        UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
    """
    snapshot = table.newest(dry_run=request.dry_run)
    retention = _retention(request, snapshot)
    cutoff_ms = time.time_ns() // 10**6 - retention // _MILLISECOND
    scope = PartitionScope(snapshot, request.where)
    versions = RetainedVersions.at(snapshot, cutoff_ms)
    search: FileSearch = _Spool.found if find is None else find
    with closing(search(versions, scope, request)) as found:
        result = VacuumResult(
            table=table.store.root,
            version=snapshot.version,
            mode=request.mode,
            dry_run=request.dry_run,
            retention_seconds=retention.total_seconds(),
            cutoff=datetime.fromtimestamp(cutoff_ms / 1000, UTC),
            files_to_delete=found.files,
            bytes_to_delete=found.bytes,
            paths=tuple(found.paths),
            may_have_been_gone=request.mode == "lite" and not is_local(table.store),
            warnings=found.warnings,
        )
        if request.dry_run:
            return result
        result = _Run(table, request, snapshot, retention).delete(found, result)
    is_whole = scope.is_everything and not request.keep_versions and request.inventory is None
    if is_whole and not result.files_failed and versions.oldest >= 0:
        _remember_version(table.store, versions.oldest)
    return result


def _find(
    dead: DeadFiles, spool: _Spool, request: VacuumRequest, versions: RetainedVersions
) -> tuple[str, ...]:
    """Collect the files to delete; return what the caller should know about them."""
    if request.mode == "lite":
        first = next_version(versions.snapshot.store)
        spool.fill(dead.in_log(first))
        return incomplete_log(versions, first)
    if request.inventory is not None:
        spool.fill(dead.in_inventory(request.inventory))
    else:
        spool.fill(dead.in_storage())
    if dead.nested_tables:
        spool.leave_out(lambda paths: below_mask(paths, dead.nested_tables))
    whole = "the store cannot list single directories: the whole table was listed"
    return (*skipped_tables(dead.nested_tables), *(() if dead.lists_partitions else (whole,)))


def _retention(request: VacuumRequest, snapshot: SnapshotState) -> timedelta:
    """Return the retention, which is refused below the table's without `force`."""
    least = Retention.parse(snapshot.metadata.configuration).deleted_files
    given = request.retention
    if given is None:
        return least
    try:
        retention = (
            given
            if isinstance(given, timedelta)
            else parse_interval(given, "retention")
            if isinstance(given, str)
            else timedelta(hours=given)
        )
    except (SchemaError, TypeError, OverflowError, ValueError):
        reason = f"must be a timedelta, hours or an interval such as '7 days', not {given!r}"
        raise ConfigError("retention", reason) from None
    if retention < timedelta():
        raise ConfigError("retention", f"cannot be negative: {given!r}")
    if retention < least and not request.force:
        raise ConfigError(
            "retention",
            f"{retention} is shorter than delta.deletedFileRetentionDuration ({least}) of "
            f"{snapshot.store.root}: readers of older versions and writers that are still running "
            "could lose files. Give a longer one, or if there are none force=True (on Spark, "
            "DeltaTable and SQL: spark.databricks.delta.retentionDurationCheck.enabled=false)",
        )
    return retention


class _Spool:
    """The files to delete: counted, some of them listed, the rest on disk if they are many."""

    def __init__(self, snapshot: SnapshotState) -> None:
        self._snapshot = snapshot
        self._memory_limit = snapshot.config.remove_set_memory_limit
        self._batches = BatchSpool(memory_limit=self._memory_limit)
        self.files = self.bytes = 0
        self.paths: list[str] = []
        self.warnings: tuple[str, ...] = ()

    @classmethod
    def found(
        cls, versions: RetainedVersions, scope: PartitionScope, request: VacuumRequest
    ) -> _Spool:
        """Find the files in this process."""
        spool = cls(versions.snapshot)
        try:
            with RetainedFiles(versions, request.keep_versions) as retained:
                dead = DeadFiles(versions, retained, scope)
                spool.warnings = _find(dead, spool, request, versions)
            release_memory()
        except BaseException:
            spool.close()
            raise
        return spool

    def fill(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            if batch.num_rows:
                self.files += batch.num_rows
                self.bytes += int(pc.sum(batch.column("size")).as_py() or 0)
                room = tuning.LISTED_PATHS - len(self.paths)
                self.paths += batch.column("path").slice(0, max(room, 0)).to_pylist()
                self._batches.append(batch)

    def leave_out(self, chosen: Callable[[pa.Array], np.ndarray]) -> None:
        """Remove the files whose paths are chosen."""
        batches, self._batches = self._batches, BatchSpool(memory_limit=self._memory_limit)
        self.files, self.bytes, self.paths = 0, 0, []
        with closing(batches):
            self.fill(
                batch.filter(from_mask(~chosen(batch.column("path")))) for batch in batches.drain()
            )

    def delete(self, progress: Callable[[int], None]) -> Deletion:
        with files_added_since(self._snapshot) as added:
            if added:
                self.leave_out(added.contains)
        return delete_files(self._snapshot.store, self._batches.drain(), progress)

    def close(self) -> None:
        self._batches.close()


@dataclass(frozen=True, slots=True)
class _Run:
    """The deletion of the files of a spool, between VACUUM START and VACUUM END."""

    table: Maintained
    request: VacuumRequest
    snapshot: SnapshotState
    retention: timedelta

    def delete(self, found: FoundFiles, result: VacuumResult) -> VacuumResult:
        if not found.files:
            return result
        _, base = self._record("VACUUM START", self._parameters(), {
            "numFilesToDelete": result.files_to_delete,
            "sizeOfDataToDelete": result.bytes_to_delete,
        }, self.snapshot)  # fmt: skip
        done, status = Deletion(), "FAILED"
        try:
            done = found.delete(self.request.progress)
            status = "FAILED" if done.failed else "COMPLETED"
        finally:
            version, _ = self._record("VACUUM END", {"status": status}, {
                "numDeletedFiles": done.files,
                "numVacuumedDirectories": done.num_directories,
            }, base)  # fmt: skip
        return replace(
            result,
            version=version,
            files_to_delete=found.files,
            bytes_to_delete=found.bytes,
            paths=tuple(found.paths),
            files_deleted=done.files,
            bytes_deleted=done.bytes,
            files_failed=done.failed,
            failures=tuple(done.failures),
        )

    def _parameters(self) -> dict[str, Any]:
        default = Retention.parse(self.snapshot.metadata.configuration).deleted_files
        parameters: dict[str, Any] = {
            "retentionCheckEnabled": not self.request.force,
            "defaultRetentionMillis": default // _MILLISECOND,
        }
        if self.request.retention is not None:
            parameters["specifiedRetentionMillis"] = self.retention // _MILLISECOND
        return parameters

    def _record(
        self,
        operation: str,
        parameters: dict[str, Any],
        metrics: dict[str, int],
        base: SnapshotState,
    ) -> tuple[int, SnapshotState]:
        """Commit the start or the end; return its version, and a snapshot for the next commit."""
        if not self.request.record:
            return base.version, base
        transaction = Transaction(
            operation=operation,
            parameters=parameters,
            metrics=metrics,
            user_metadata=self.table.commit_metadata,
        )
        done = self.table.commit(transaction, base)
        return done.version, done.snapshot or base


def incomplete_log(versions: RetainedVersions, first_version: int) -> tuple[str, ...]:
    """Return a warning if the log does not have every commit from a version on."""
    if versions.has_commits_since(first_version):
        return ()
    reason = "log cleanup removed commits that no VACUUM has read"
    return (f'{reason}; files that they removed may be left: run it with mode="full" once',)


def skipped_tables(nested_tables: Collection[str]) -> tuple[str, ...]:
    """Return a warning that names tables in the directory of this one."""
    if not nested_tables:
        return ()
    names = sorted(nested_tables)
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    what = f"directories with a Delta table of their own: {', '.join(names[:3])}{more}"
    return (f"nothing is deleted in {len(names):,} {what}",)


def next_version(store: Store) -> int:
    """Return the first version whose tombstones may have files that are not deleted yet.

    The last VACUUM that left no file, of this engine or of Delta Spark, wrote it down.
    """
    with suppress(StoreError, orjson.JSONDecodeError, AttributeError):
        version = orjson.loads(bytes(store.read(_LAST_VACUUM))).get(_LAST_VERSION)
        if isinstance(version, int) and version >= 0:
            return version + 1
    return 0


def _remember_version(store: Store, version: int) -> None:
    body = orjson.dumps({_LAST_VERSION: version}) + b"\n"
    try:
        store.write(_LAST_VACUUM, body, overwrite=True)
    except StoreError as error:  # the next VACUUM reads more commits
        logger.warning("cannot write %s: %s", _LAST_VACUUM, error)
