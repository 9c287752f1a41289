"""One planner: who replays a log, which files are listed, how files and a log are split.

`read`, the format, streams and the verbs ask here; `conf.ReplaySettings` and `tuning` have the
numbers. Live files are a DataFrame too, replayed here or on executors: those read splits of the log
with the readers of this package, so every store works that lazydelta opens. Spark combines them:
the newest action of the tail for each file, and the adds of the checkpoint that no action of the
tail replaces. The checkpoint is not shuffled unless the tail is huge, and nothing that grows with
the table reaches the driver. `tests/spark` compares the result with `scan.live_adds`.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from lazydelta.errors import ConfigError, RetentionGuardError
from lazydelta.expressions import as_predicate
from lazydelta.protocol.schemas import ADD
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import (
    COMMIT_VERSION,
    Explanation,
    SplitReader,
    live_adds,
    parsed_stats_fields,
    split_checkpoint,
    split_tail,
)
from lazydelta.schema.mapping import to_physical
from lazydelta.snapshot import BYTES_PER_ADD, skip_damaged_checkpoint
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import spark_schema
from lazydelta.spark.conf import replay_settings, storage_options_file
from lazydelta.spark.jobs import named_task
from lazydelta.spark.serialized_snapshot import TableLocation
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.log import LogSegment
    from lazydelta.log.checkpoints import Checkpoint
    from lazydelta.scan import Where
    from lazydelta.scan.plan import CheckpointSplit, CommitSplit
    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.conf import ReplaySettings

__all__ = [
    "ReplayChoice",
    "apply_data_skipping",
    "check_retention_guard",
    "choose_replay",
    "distributed_log_replay",
    "explain_replay",
    "few_live_files",
    "list_files",
    "live_files",
    "map_splits",
    "num_read_tasks",
    "pruner_for",
    "split_by_size",
    "split_log",
    "task_numbers",
]

T = TypeVar("T")

_PARSED = ("stats_parsed", "partitionValues_parsed")
"""Columns of some checkpoints only; requesting one that is missing is no error."""


# --- replay in this process or on executors ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChoice:
    """Whether executors replay the log, and why."""

    distributed: bool
    reason: str
    estimated_files: int


def live_files(
    spark: SparkSession,
    snapshot: SnapshotState,
    *,
    where: Where = None,
    fields: Sequence[str] | None = None,
) -> DataFrame:
    """Return the live files of a snapshot; the columns are those of `distributed_log_replay`.

    This process replays small tables, because starting tasks costs more. The session's
    `spark.lazydelta.distributedLogReplay.*` settings decide; `explain_replay` shows the decision.
    Files found by this process come without the parsed statistics of checkpoints.
    """
    settings = replay_settings(spark)
    if choose_replay(snapshot, settings).distributed:
        return distributed_log_replay(
            spark, snapshot, settings.num_partitions, where=where, fields=fields
        )
    schema = _add_schema(snapshot, fields)
    batches = live_adds(snapshot, schema, pruner_for(snapshot, where))
    files = pa.Table.from_batches(batches, pa.schema([*schema, COMMIT_VERSION]))
    shape = spark_schema(files.schema)
    return frame_of_arrow(spark, files, shape).select(_output_columns(schema, fields))


def few_live_files(
    spark: SparkSession, snapshot: SnapshotState, where: Where, schema: pa.Schema
) -> pa.RecordBatch | None:
    """Return the live files that may match, or None if they are too many for the driver.

    What is left after data skipping decides, not the size of the table. If executors replay the
    log, a job counts up to the threshold first; without a predicate nothing is skipped, so there
    is no job.

    Args:
        spark: The session.
        snapshot: The version.
        where: The predicate.
        schema: The fields of the `add` action to return.
    """
    settings = replay_settings(spark)
    if not choose_replay(snapshot, settings).distributed:
        adds = live_adds(snapshot, schema, pruner_for(snapshot, where))
        return list_files(adds, schema)
    if pruner_for(snapshot, where).rule is None:
        return None
    found = distributed_log_replay(
        spark, snapshot, settings.num_partitions, where=where, fields=schema.names
    )
    limit = settings.file_threshold
    files = collect_arrow(found.select(*schema.names).limit(limit + 1))
    if files.num_rows > limit:
        return None
    table = files.cast(schema).combine_chunks()
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def list_files(
    adds: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int | None = None
) -> pa.RecordBatch | None:
    """Return add actions in one batch, or None if they are more than a limit.

    Args:
        adds: The actions; at the limit no more are taken.
        schema: The fields to return.
        limit: The maximum number; None is unlimited.
    """
    selected: list[pa.RecordBatch] = []
    count = 0
    for batch in adds:
        count += batch.num_rows
        if limit is not None and count > limit:
            return None
        selected.append(batch.select(schema.names))
    return pa.concat_batches(selected or [pa.RecordBatch.from_pylist([], schema)])


def explain_replay(spark: SparkSession, snapshot: SnapshotState) -> Explanation:
    """Return whether this process or executors would replay the snapshot's log, and why."""
    settings = replay_settings(spark)
    choice = choose_replay(snapshot, settings)
    segment = snapshot.segment
    return Explanation(
        table=snapshot.store.root,
        version=snapshot.version,
        replay={
            "by": "executors" if choice.distributed else "this process",
            "reason": choice.reason,
            "estimated_files": choice.estimated_files,
            "file_threshold": settings.file_threshold,
            "max_tasks": settings.num_partitions,
        },
        log={
            "checkpoint": segment.checkpoint and segment.checkpoint.name,
            "tail_commits": len(segment.commits),
            "tail_bytes": sum(file.size for file in segment.tail),
        },
    )


def choose_replay(snapshot: SnapshotState, settings: ReplaySettings) -> ReplayChoice:
    """Decide by the estimated number of files; no file is listed for the estimate."""
    stated = snapshot.estimated_files()
    files = skip_damaged_checkpoint(snapshot, _estimate_by_footer) if stated is None else stated
    source = "estimated from a checkpoint footer" if stated is None else "stated by the log"
    if not settings.enabled:
        return ReplayChoice(
            distributed=False, reason="disabled by the session", estimated_files=files
        )
    distributed = files >= settings.file_threshold
    side = "not below" if distributed else "below"
    return ReplayChoice(
        distributed=distributed,
        reason=f"about {files:,} files, {source}: {side} the threshold of "
        f"{settings.file_threshold:,}",
        estimated_files=files,
    )


def _estimate_by_footer(snapshot: SnapshotState) -> int:
    """Estimate from the row count and size of one checkpoint file and the sizes of all."""
    segment = snapshot.segment
    tail = sum(file.size for file in segment.tail) // BYTES_PER_ADD
    if segment.checkpoint is None:
        return tail
    checkpoint = snapshot.open_checkpoint(segment.checkpoint)
    inline = checkpoint.inline_actions
    files = tail + (0 if inline is None else inline.size // BYTES_PER_ADD)
    leaves = checkpoint.leaves()
    for leaf in leaves:
        with closing(checkpoint.open(leaf)) as reader:
            if reader.has_adds() and reader.metadata.num_rows:
                rows = reader.metadata.num_rows
                ratio = rows / (leaf.size or 1)
                sized = [other.size for other in leaves if other.size is not None]
                return files + max(rows, int(ratio * sum(sized))) if leaf.size else files + rows
    return files


# --- splits ---------------------------------------------------------------------------------------


def task_numbers(spark: SparkSession, tasks: int, estimated_rows: int = 0) -> DataFrame:
    """Return a number for each of some tasks, in a plan of which Spark estimates this many rows.

    Spark takes the rows of a Python task for as many as its input: a few numbers would make a join
    broadcast a table of any size. So the range is as long as the estimate, and a filter keeps the
    first number of each task, for which Spark does not lower the estimate.
    """
    each = max(1, min(estimated_rows, tuning.MAX_ESTIMATED_ROWS) // tasks)
    numbers = spark.range(0, tasks * each, 1, tasks)
    if each == 1:
        return numbers
    return numbers.where(f"id % {each} = 0").selectExpr(f"id div {each} AS id")


def num_read_tasks(estimated_files: int, minimum: int) -> int:
    """Return the number of tasks for a table whose files are not listed."""
    return max(minimum, min(estimated_files // tuning.FILES_PER_TASK, tuning.MAX_TASKS))


def split_by_size(sizes: np.ndarray, tasks: int | None = None) -> list[range]:
    """Split files into runs of about equal size: the requested number, but none tiny or huge."""
    weights = sizes + tuning.OPEN_COST_BYTES
    total = int(weights.sum())
    most = min(tuning.READ_TASKS if tasks is None else tasks, total // tuning.MIN_TASK_BYTES)
    count = max(-(-total // tuning.MAX_TASK_BYTES), most, 1)
    middles = np.cumsum(weights) - weights // 2
    ends = np.searchsorted(middles, total * np.arange(1, count + 1) // count)
    starts = np.concatenate([[0], ends[:-1]])
    return [range(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True) if a < b]


def split_log(
    snapshot: SnapshotState, where: Where, num_partitions: int
) -> tuple[list[tuple[CheckpointSplit, ...] | None], int]:
    """Return parts of a log for tasks that find their files themselves, and slices of each part.

    A part is a split of the checkpoint, or None for the tail. A task reads every n-th file of a
    part: with n slices, each part of the log is read n times.
    """
    files = snapshot.segment.checkpoint
    parts: list[tuple[CheckpointSplit, ...] | None] = [None] if snapshot.segment.tail else []
    if files is not None:
        checkpoint = snapshot.open_checkpoint(files)
        parts += split_checkpoint(checkpoint, num_partitions, pruner_for(snapshot, where))
    tasks = num_read_tasks(snapshot.estimated_files() or 0, num_partitions)
    return parts, max(1, min(tasks // max(1, len(parts)), tuning.MAX_LOG_SLICES))


# --- replay on executors --------------------------------------------------------------------------


def distributed_log_replay(
    spark: SparkSession,
    snapshot: SnapshotState,
    num_partitions: int = 50,
    *,
    where: Where = None,
    fields: Sequence[str] | None = None,
    estimated_rows: int | None = None,
) -> DataFrame:
    """Return the live files of a snapshot, found by executors.

    The columns are the fields of the `add` action as the log has them (paths as written), the
    parsed statistics `stats_parsed` and `partitionValues_parsed` where the checkpoint has them,
    and `commitVersion`: the version of the commit or checkpoint that holds the action.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed and
            access to the table's store.
        snapshot: The version to replay.
        num_partitions: Maximum number of tasks for the checkpoint, and for the tail.
        where: Skip files that cannot contain a matching row while the log is read. Row groups of
            the checkpoint without such files are not fetched.
        fields: Columns to return besides `path`; None is all. Spark does not tell a Python task
            which columns a query uses, so this is the way to read fewer.
        estimated_rows: What Spark takes for the number of rows, to choose joins; by default the
            estimated number of files.

    Raises:
        ConfigError: An unknown field, or a store that executors cannot open.
        LogCorruptError: The checkpoint is corrupt, and the log has no older one. Corruption that
            only a task detects fails the job with the same message.
    """
    if num_partitions < 1:
        raise ConfigError("num_partitions", f"must be at least 1, not {num_partitions}")
    check_retention_guard(snapshot)
    return skip_damaged_checkpoint(
        snapshot,
        lambda usable: _replay(
            spark,
            usable,
            (num_partitions, estimated_rows or usable.estimated_files() or 0),
            where,
            fields,
        ),
    )


def _replay(
    spark: SparkSession,
    snapshot: SnapshotState,
    counts: tuple[int, int],
    where: Where,
    fields: Sequence[str] | None,
) -> DataFrame:
    num_partitions, rows = counts
    location = TableLocation.of(snapshot.store, snapshot.config, storage_options_file(spark))
    segment = snapshot.segment
    checkpoint = None
    if segment.checkpoint is not None:
        checkpoint = snapshot.open_checkpoint(segment.checkpoint)
    reader = SplitReader(
        open_store=location.open,
        config=location.config,
        checkpoint=segment.checkpoint,
        schema=_add_schema(snapshot, fields, checkpoint),
        pruner=pruner_for(snapshot, where),
    )
    columns = _output_columns(reader.schema, fields)
    tail = _newest_actions(spark, reader, split_tail(segment, num_partitions), num_partitions)
    live = tail.where("isAdd").select(columns)
    if checkpoint is None:
        return live
    tasks = split_checkpoint(checkpoint, num_partitions, reader.pruner, reader.schema.names)
    adds = map_splits(spark, tasks, reader.read_checkpoint, reader.checkpoint_schema, rows)
    return _not_replaced(adds, tail, segment).select(columns).unionByName(live)


def _add_schema(
    snapshot: SnapshotState, fields: Sequence[str] | None, checkpoint: Checkpoint | None = None
) -> pa.Schema:
    """Return the schema of adds with the requested fields, and those that identify a file.

    Raises:
        ConfigError: An unknown field.
    """
    known = {field.name: field for field in ADD}
    if checkpoint is not None and (fields is None or not set(fields) <= known.keys()):
        physical = to_physical(snapshot.schema, snapshot.column_mapping_mode)
        known |= {field.name: field for field in parsed_stats_fields(checkpoint, physical)}
    if fields is None:
        return pa.schema(list(known.values()))
    for name in fields:
        if name not in known and name not in _PARSED:
            raise ConfigError("fields", f"an add has no {name!r}; it has {', '.join(known)}")
    requested = {"path", "deletionVector", *fields}
    return pa.schema([field for name, field in known.items() if name in requested])


def _output_columns(schema: pa.Schema, fields: Sequence[str] | None) -> list[str]:
    requested = schema.names if fields is None else ["path", *fields]
    return [*(name for name in schema.names if name in requested), COMMIT_VERSION.name]


def _not_replaced(adds: DataFrame, tail: DataFrame, segment: LogSegment) -> DataFrame:
    """Return the adds of the checkpoint whose file has no action in the tail.

    The keys of the tail are broadcast, so the checkpoint is not shuffled; too many keys for that
    make it a sort-merge join.
    """
    if not segment.tail:
        return adds
    keys = tail.select(f.col("key").alias("tailKey"))
    huge = sum(file.size for file in segment.tail) // BYTES_PER_ADD > tuning.MAX_BROADCAST_KEYS
    keys = keys.hint("merge") if huge else f.broadcast(keys)
    return adds.join(keys, f.coalesce("key", "path") == f.col("tailKey"), "left_anti")


def _newest_actions(
    spark: SparkSession, reader: SplitReader, splits: Sequence[CommitSplit], num_partitions: int
) -> DataFrame:
    """Return the newest action of the tail for each file; a single split is already reconciled."""
    actions = map_splits(spark, splits, reader.read_tail, reader.tail_schema)
    if len(splits) < 2:
        return actions
    names = reader.tail_schema.names
    newest = f.max_by(f.struct(*names), f.struct("commitVersion", "isAdd"))
    grouped = actions.repartition(num_partitions, "key").groupBy("key")
    return grouped.agg(newest.alias("action")).select("action.*")


def map_splits(
    spark: SparkSession,
    splits: Sequence[T],
    read: Callable[[T], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    estimated_rows: int = 0,
) -> DataFrame:
    """Return the rows that `read` yields for each split, one task per split.

    The splits are serialized with the function, and a task selects its own by number: a range of
    numbers is evenly distributed without a shuffle.
    """
    shape = spark_schema(schema)
    if not splits:
        return spark.createDataFrame([], shape)
    numbers = task_numbers(spark, len(splits), estimated_rows)
    return numbers.mapInArrow(named_task(read.__name__, _read_splits, tuple(splits), read), shape)


def _read_splits(
    splits: Sequence[Any],
    read: Callable[[Any], Iterator[pa.RecordBatch]],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from read(splits[number])


# --- data skipping --------------------------------------------------------------------------------


def apply_data_skipping(df: DataFrame, snapshot: SnapshotState, where: Where) -> DataFrame:
    """Return the files that may contain a matching row; executors evaluate `replay.Pruner`.

    Args:
        df: Live files, as `live_files` returns them: columns named as the fields of an add action,
            `partitionValues` or `partitionValues_parsed` or both, and `stats` or `stats_parsed` or
            both. Other columns pass through.
        snapshot: The version of the files.
        where: A predicate, SQL string, DNF tuples or an equality map; None keeps every file.

    Raises:
        ColumnNotFoundError: The predicate names a column that the schema does not have.
        PredicateError: The predicate does not fit the schema.
    """
    pruner = pruner_for(snapshot, where)
    if pruner.rule is None:
        return df
    return df.mapInArrow(named_task("skip_files", _skip_files, pruner), df.schema)


def _skip_files(pruner: Pruner, files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in files:
        mask = pruner.mask(batch)
        yield batch if mask is None else batch.filter(mask)


def pruner_for(snapshot: SnapshotState, where: Where) -> Pruner:
    """Return the pruner of a predicate on a snapshot."""
    return Pruner.build(
        as_predicate(where),
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        mapping_mode=snapshot.column_mapping_mode,
        generated=snapshot.generates_columns,
    )


def check_retention_guard(snapshot: SnapshotState) -> None:
    """Call the caller's retention guard, as a scan in one process does."""
    guard, segment = snapshot.config.retention_guard, snapshot.segment
    if guard is not None and not guard(segment.base_version):
        raise RetentionGuardError(segment.table, segment.base_version)
