"""Results of operations as DataFrames, with the columns of Delta Spark's commands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from lazydelta.operations import WriteResult
from lazydelta.protocol.features import supported_features
from lazydelta.scan.plan import live_adds
from lazydelta.schema import format_path
from lazydelta.spark.planner import pruner_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.operations.dml import DmlResult
    from lazydelta.operations.maintenance import RestoreResult, VacuumResult
    from lazydelta.operations.optimize import OptimizeResult
    from lazydelta.snapshot import HistoryEntry, SnapshotState
    from lazydelta.table import Table

__all__ = [
    "DETAIL",
    "HISTORY",
    "changes_frame",
    "detail_rows",
    "frame_of",
    "history_rows",
    "merge_frame",
    "optimize_frame",
    "restore_frame",
    "vacuum_frame",
]

# `timestamp` would be without time zone in sessions that set spark.sql.timestampType.
HISTORY = (
    "version bigint, timestamp timestamp_ltz, userId string, userName string, operation string, "
    "operationParameters map<string,string>, readVersion bigint, isolationLevel string, "
    "isBlindAppend boolean, operationMetrics map<string,string>, userMetadata string, "
    "engineInfo string"
)
DETAIL = (
    "format string, id string, name string, description string, location string, "
    "createdAt timestamp_ltz, lastModified timestamp_ltz, partitionColumns array<string>, "
    "clusteringColumns array<string>, numFiles bigint, sizeInBytes bigint, "
    "properties map<string,string>, minReaderVersion int, minWriterVersion int, "
    "tableFeatures array<string>"
)
_SIZE = pa.schema([pa.field("size", pa.int64())])
_SIZES = "struct<totalFiles: bigint, totalSize: bigint>"
_FILES = "struct<num: bigint, size: bigint>"
_Z_ORDER = (
    f"struct<strategyName: string, inputCubeFiles: {_FILES}, inputOtherFiles: {_FILES}, "
    f"inputNumCubes: bigint, mergedFiles: {_FILES}, numOutputCubes: bigint>"
)
_OPTIMIZE = (
    "path string, metrics struct<numFilesAdded: bigint, numFilesRemoved: bigint, "
    f"filesAdded: {_SIZES}, filesRemoved: {_SIZES}, zOrderStats: {_Z_ORDER}, numBins: bigint, "
    "numBatches: bigint, totalConsideredFiles: bigint, totalFilesSkipped: bigint>"
)
_MERGE = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
_RESTORE = (
    "table_size_after_restore bigint, num_of_files_after_restore bigint, "
    "num_removed_files bigint, num_restored_files bigint, removed_files_size bigint, "
    "restored_files_size bigint"
)
_RESTORE_METRICS = (
    *("tableSizeAfterRestore", "numOfFilesAfterRestore", "numRemovedFiles", "numRestoredFiles"),
    *("removedFilesSize", "restoredFilesSize"),
)


def frame_of(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: str) -> DataFrame:
    """Return rows as a DataFrame."""
    return spark.createDataFrame(list(rows), schema)


def history_rows(entries: Iterable[HistoryEntry]) -> list[tuple[Any, ...]]:
    """Return the rows of a history, as `HISTORY` names their columns."""
    rows = []
    for entry in entries:
        raw = entry.raw
        rows.append((
            entry.version, entry.timestamp, raw.get("userId"), raw.get("userName"),
            entry.operation, _strings(raw.get("operationParameters")), raw.get("readVersion"),
            raw.get("isolationLevel"), raw.get("isBlindAppend"),
            _strings(raw.get("operationMetrics")), _string(raw.get("userMetadata")),
            raw.get("engineInfo"),
        ))  # fmt: skip
    return rows


def _string(value: Any) -> str | None:
    """Return a value as Delta Spark shows it: a string as it is, others as JSON."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _strings(values: Mapping[str, Any] | None) -> dict[str, str | None] | None:
    return None if values is None else {name: _string(value) for name, value in values.items()}


def detail_rows(table: Table) -> list[tuple[Any, ...]]:
    """Return the row that describes a table, as `DETAIL` names its columns."""
    snapshot = table.snapshot()
    metadata, protocol = snapshot.metadata, snapshot.protocol
    files, size = _files_of(snapshot)
    created = metadata.created_time
    changed = next((entry.timestamp for entry in table.history(1)), None)
    clustering = snapshot.clustering_columns()
    return [(
        "delta", metadata.id, metadata.name, metadata.description, table.url,
        None if created is None else datetime.fromtimestamp(created / 1000, UTC), changed,
        list(snapshot.partition_columns), [format_path(path) for path in clustering],
        files, size, dict(metadata.configuration), protocol.min_reader_version,
        protocol.min_writer_version, sorted(supported_features(protocol)),
    )]  # fmt: skip


def _files_of(snapshot: SnapshotState) -> tuple[int, int]:
    """Return the number and total size of the live files; from the checksum if it has them."""
    crc = snapshot.checksum
    if crc is not None and crc.version == snapshot.version:
        files, size = crc.num_files, crc.table_size_bytes
        if files is not None and size is not None:
            return files, size
    batches = list(live_adds(snapshot, _SIZE, pruner_for(snapshot, None)))
    sizes = pa.chunked_array([batch.column("size") for batch in batches], pa.int64())
    return len(sizes), pc.sum(sizes).as_py() or 0


def merge_frame(spark: SparkSession, result: DmlResult) -> DataFrame:
    """Return the row counts of a MERGE."""
    updated, deleted, inserted = (
        result.metrics.get(f"numTargetRows{what}", 0) for what in ("Updated", "Deleted", "Inserted")
    )
    schema = t.StructType([t.StructField(name, t.LongType(), False) for name in _MERGE])
    counts = (updated + deleted + inserted, updated, deleted, inserted)
    return spark.createDataFrame([counts], schema)


def changes_frame(spark: SparkSession, result: DmlResult | WriteResult) -> DataFrame:
    """Return the row count of a DELETE, UPDATE or INSERT."""
    if isinstance(result, WriteResult):
        names, count = ("num_affected_rows", "num_inserted_rows"), result.rows
        return frame_of(spark, [(count, count)], ", ".join(f"{name} bigint" for name in names))
    found = [result.metrics.get(name) for name in ("numDeletedRows", "numUpdatedRows")]
    counts = [(rows,) for rows in found if rows is not None]
    return frame_of(spark, counts or [(None,)], "num_affected_rows bigint")


def optimize_frame(
    spark: SparkSession, result: OptimizeResult, *, is_z_order: bool = False
) -> DataFrame:
    """Return the metrics of an OPTIMIZE; a Z-order considers and rewrites all files."""
    added, removed, bytes_added, bytes_removed = (
        result.metrics.get(name, 0)
        for name in ("numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes")
    )
    sizes = ((added, bytes_added), (removed, bytes_removed))
    stats, considered, skipped = None, None, None
    if is_z_order:
        stats = ("all", (0, 0), (removed, bytes_removed), 0, (removed, bytes_removed), result.bins)
        considered, skipped = removed, 0
    batches = len(result.versions)
    metrics = (added, removed, *sizes, stats, result.bins, batches, considered, skipped)
    return frame_of(spark, [(result.table, metrics)], _OPTIMIZE)


def restore_frame(spark: SparkSession, result: RestoreResult) -> DataFrame:
    """Return the metrics of a RESTORE."""
    row = tuple(result.metrics.get(name) for name in _RESTORE_METRICS)
    return frame_of(spark, [row], _RESTORE)


def vacuum_frame(spark: SparkSession, result: VacuumResult) -> DataFrame:
    """Return the paths that a dry run of VACUUM names, else the table, as Delta Spark does."""
    rows = [(path,) for path in result.paths] if result.dry_run else [(result.table,)]
    return frame_of(spark, rows, "path string")
