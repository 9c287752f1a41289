"""RESTORE on Spark: executors compare two versions, the driver commits the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from lazydelta.operations.maintenance import Maintained, RestoreRequest, restore_table
from lazydelta.operations.maintenance.distributed import (
    FileDifference,
    FilePresence,
    LocalRestore,
)
from lazydelta.replay import file_keys
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import serialize_table, spark_schema
from lazydelta.spark.conf import replay_settings
from lazydelta.spark.jobs import named_task
from lazydelta.spark.maintenance.open_table import OpenTable
from lazydelta.spark.planner import choose_replay, distributed_log_replay, map_splits
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.spark.spark_releases import collect_arrow
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.config import Config
    from lazydelta.operations.maintenance import RestoreResult
    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.serialized_snapshot import SerializedSnapshot
    from lazydelta.store.cloud import Credential

__all__ = ["restore"]

_KEYED = pa.schema([pa.field("key", pa.string()), *ADDS])
_NAMES = pa.list_(pa.field("element", pa.string()))
_PRESENCE = pa.schema([("files", pa.binary()), ("missing", _NAMES)])


@raises_spark_errors
def restore(
    spark: SparkSession,
    url: str | os.PathLike[str],
    version: int | None = None,
    timestamp: datetime | str | None = None,
    *,
    ignore_missing_files: bool = False,
    protocol_downgrade_allowed: bool = False,
    dry_run: bool = False,
    commit_metadata: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
) -> RestoreResult:
    """Make an older version the newest one again, as a new commit.

    The result and the commit are those of `Table.restore`. Executors replay the log of a large
    table, compare both versions, and look for the files; the driver receives the files that
    differ, which the commit names.

    Args:
        spark: A session, as for `optimize`.
        url: The table's location.
        version: The version to restore.
        timestamp: Restore the version that was the newest one at this time instead.
        ignore_missing_files: Whether to leave out files that do not exist any more.
        protocol_downgrade_allowed: Whether the protocol is restored too.
        dry_run: Whether to check and report, and commit nothing.
        commit_metadata: User metadata for the commit.
        storage_options: Store settings of this process, as for `read`.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        credential: A function of a module that returns a token or keys.

    Raises:
        FilesNotFoundError: Files do not exist any more; the error names them.
        VersionNotFoundError: The log does not have the version any more, or yet.
        CommitConflictError: A concurrent commit conflicts with this one.
        PySparkException: Tasks failed; nothing is committed.
    """
    request = RestoreRequest(
        version=version,
        timestamp=timestamp,
        ignore_missing_files=ignore_missing_files,
        protocol_downgrade_allowed=protocol_downgrade_allowed,
        dry_run=dry_run,
    )
    table = OpenTable.at(spark, url, storage_options, config, credential)
    maintained = Maintained(
        store=table.store, config=table.config, commit_metadata=commit_metadata or {}
    )
    return restore_table(maintained, request, ExecutorRestore(table))


class ExecutorRestore:
    """Compares versions and looks for files on executors, if these are many."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._local = LocalRestore()

    def difference(self, current: SnapshotState, target: SnapshotState) -> FileDifference:
        """Return the files that a restore of the target adds and removes."""
        settings = replay_settings(self._table.spark)
        if not any(choose_replay(one, settings).distributed for one in (current, target)):
            return self._local.difference(current, target)
        before, after = self._files(current), self._files(target)
        totals = after.agg(f.count("*").alias("files"), f.sum("size").alias("size")).collect()[0]
        return FileDifference(
            adds=_only_in(after, before),
            removes=_only_in(before, after),
            files=totals["files"],
            size=totals["size"] or 0,
        )

    def existing(self, target: SnapshotState, adds: pa.Table) -> tuple[pa.Table, list[str]]:
        """Return the files that exist, and the names of the others."""
        step = tuning.FILES_LOOKED_UP
        if adds.num_rows <= step:
            return self._local.existing(target, adds)
        parts = [serialize_table(adds.slice(at, step)) for at in range(0, adds.num_rows, step)]
        task = _RestoreTask(snapshot=self._table.saved(target))
        found = collect_arrow(map_splits(self._table.spark, parts, task.existing, _PRESENCE))
        tables = (pa.ipc.open_stream(files) for files in found.column("files").to_pylist())
        missing = [path for paths in found.column("missing").to_pylist() for path in paths]
        return pa.concat_tables([one.read_all() for one in tables]).combine_chunks(), missing

    def _files(self, snapshot: SnapshotState) -> DataFrame:
        """Return the live files of a version with their keys."""
        spark = self._table.spark
        num_partitions = replay_settings(spark).num_partitions
        fields = [name for name in ADDS.names if name != "path"]
        files = distributed_log_replay(spark, snapshot, num_partitions, fields=fields)
        task = _RestoreTask(snapshot=self._table.saved(snapshot))
        return files.mapInArrow(named_task("file_keys", task.with_keys), spark_schema(_KEYED))


def _only_in(files: DataFrame, others: DataFrame) -> pa.Table:
    found = collect_arrow(files.join(others.select("key"), "key", "left_anti"))
    return found.select(ADDS.names).cast(ADDS).combine_chunks()


@dataclass(frozen=True, kw_only=True)
class _RestoreTask:
    """The tasks of a RESTORE; it can be pickled."""

    snapshot: SerializedSnapshot

    def with_keys(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield live files with their keys."""
        resolver = self.snapshot.open().resolver
        for batch in batches:
            files = pa.Table.from_batches([batch]).select(ADDS.names).cast(ADDS).combine_chunks()
            columns = [column.combine_chunks() for column in files.columns]
            vectors = columns[ADDS.get_field_index("deletionVector")]
            keys = file_keys(resolver.keys(columns[ADDS.get_field_index("path")]), vectors)
            yield pa.RecordBatch.from_arrays([keys, *columns], schema=_KEYED)

    def existing(self, part: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the files of a part that exist, and the names of the others."""
        files = pa.ipc.open_stream(part).read_all()
        existing, _, missing = FilePresence(self.snapshot.open()).split(files)
        columns = [pa.array([serialize_table(existing)], pa.binary()),
            pa.array([missing], _NAMES)]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, schema=_PRESENCE)
