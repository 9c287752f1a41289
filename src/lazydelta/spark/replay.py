"""The log of a table replayed by executors: a DataFrame of its live files.

The distributed twin of `scan.plan.run`; `tests/spark` holds them together. Executors read parts of the
log with the readers of this package, so every store works that lazydelta opens, and Spark puts
the parts together: the newest word of the tail on each file, and of the checkpoint what the tail
does not speak of. No shuffle touches the checkpoint unless the tail is huge, and nothing that
grows with the table comes to the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql import functions as f

from lazydelta.errors import ConfigError, RetentionGuardError
from lazydelta.expr import as_predicate
from lazydelta.protocol import ADD
from lazydelta.replay import Pruner
from lazydelta.scan.plan import (
    COMMIT_VERSION,
    PartReader,
    split_checkpoint,
    split_tail,
    typed_columns,
)
from lazydelta.schema import to_physical
from lazydelta.snapshot import BYTES_PER_ADD, skip_damaged_checkpoint
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.jobs import named
from lazydelta.spark.log_schema import spark_schema
from lazydelta.spark.shipped import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.log import Checkpoint, LogSegment
    from lazydelta.scan import Where
    from lazydelta.scan.plan import TailPart
    from lazydelta.snapshot import Snapshot

__all__ = [
    "check_guard",
    "columns_of",
    "distributed_log_replay",
    "fields_to_read",
    "mapped",
    "not_in",
    "pruner_of",
    "tail_words",
]

T = TypeVar("T")

TYPED = ("stats_parsed", "partitionValues_parsed")
"""Columns that only some checkpoints have; asking for one that is missing is no mistake."""
_MOST_BROADCAST_KEYS = 2_000_000


def distributed_log_replay(
    spark: SparkSession,
    snapshot: Snapshot,
    num_partitions: int = 50,
    *,
    where: Where = None,
    fields: Sequence[str] | None = None,
) -> DataFrame:
    """Return the live files of a snapshot, found by executors.

    The columns are the fields of the `add` action as the log has them (paths as written), its
    typed statistics `stats_parsed` and `partitionValues_parsed` where the checkpoint has them,
    and `commitVersion`: the version of the commit or checkpoint that the action was read from.

    Args:
        spark: A session, classic or Spark Connect; its executors must have lazydelta installed
            and reach the table's store.
        snapshot: The version to replay.
        num_partitions: Most tasks that read the checkpoint, and most that read the tail.
        where: Leave out files that cannot hold a matching row, while the log is read: row groups
            of the checkpoint that have none are not even fetched.
        fields: The columns wanted, `path` always among them; None means all. Spark cannot tell a
            Python reader which columns a query uses, so this is the way to read fewer.

    Raises:
        ConfigError: No such field, or a store that only this process has.
        LogCorruptError: The checkpoint is damaged, and the log has no older way to the version.
            Damage that only tasks can see fails the job, in the same words.
    """
    if num_partitions < 1:
        raise ConfigError("num_partitions", f"must be at least 1, not {num_partitions}")
    check_guard(snapshot)
    return skip_damaged_checkpoint(
        snapshot, lambda sound: _planned(spark, sound, num_partitions, where, fields)
    )


def _planned(
    spark: SparkSession,
    snapshot: Snapshot,
    num_partitions: int,
    where: Where,
    fields: Sequence[str] | None,
) -> DataFrame:
    address = Address.of(snapshot.store, snapshot.config, storage_options_file(spark))
    segment = snapshot.segment
    checkpoint = None
    if segment.checkpoint is not None:
        checkpoint = snapshot.open_checkpoint(segment.checkpoint)
    reader = PartReader(
        open_store=address.open,
        config=address.config,
        checkpoint=segment.checkpoint,
        schema=fields_to_read(snapshot, fields, checkpoint),
        pruner=pruner_of(snapshot, where),
    )
    columns = columns_of(reader.schema, fields)
    tail = tail_words(spark, reader, split_tail(segment, num_partitions), num_partitions)
    live = tail.where("isAdd").select(columns)
    if checkpoint is None:
        return live
    work = split_checkpoint(checkpoint, num_partitions, reader.pruner)
    adds = mapped(spark, work, reader.read_checkpoint, reader.checkpoint_schema)
    return not_in(adds, tail, segment).select(columns).unionByName(live)


def fields_to_read(
    snapshot: Snapshot, fields: Sequence[str] | None, checkpoint: Checkpoint | None = None
) -> pa.Schema:
    """Return the schema of adds with the fields asked for, and those that identify a file.

    Raises:
        ConfigError: There is no such field.
    """
    known = {field.name: field for field in ADD}
    if checkpoint is not None and (fields is None or not set(fields) <= known.keys()):
        physical = to_physical(snapshot.schema, snapshot.column_mapping_mode)
        known |= {field.name: field for field in typed_columns(checkpoint, physical)}
    if fields is None:
        return pa.schema(list(known.values()))
    for name in fields:
        if name not in known and name not in TYPED:
            raise ConfigError("fields", f"an add has no {name!r}; it has {', '.join(known)}")
    wanted = {"path", "deletionVector", *fields}
    return pa.schema([field for name, field in known.items() if name in wanted])


def columns_of(schema: pa.Schema, fields: Sequence[str] | None) -> list[str]:
    """Return the columns to hand out, of those that were read."""
    wanted = schema.names if fields is None else ["path", *fields]
    return [*(name for name in schema.names if name in wanted), COMMIT_VERSION.name]


def not_in(adds: DataFrame, tail: DataFrame, segment: LogSegment) -> DataFrame:
    """Return the adds of the checkpoint that the tail does not speak of.

    The tail's keys go to every executor, so the checkpoint stays where it was read; only keys
    too many for that make both sides move.
    """
    if not segment.tail:
        return adds
    keys = tail.select(f.col("key").alias("voidKey"))
    huge = sum(file.size for file in segment.tail) // BYTES_PER_ADD > _MOST_BROADCAST_KEYS
    keys = keys.hint("merge") if huge else f.broadcast(keys)
    return adds.join(keys, f.coalesce("key", "path") == f.col("voidKey"), "left_anti")


def tail_words(
    spark: SparkSession, reader: PartReader, parts: Sequence[TailPart], num_partitions: int
) -> DataFrame:
    """Return the newest word of the tail on each file; of one part that is what it says itself."""
    words = mapped(spark, parts, reader.read_tail, reader.tail_schema)
    if len(parts) < 2:
        return words
    names = reader.tail_schema.names
    newest = f.max_by(f.struct(*names), f.struct("commitVersion", "isAdd"))
    grouped = words.repartition(num_partitions, "key").groupBy("key")
    return grouped.agg(newest.alias("word")).select("word.*")


def mapped(
    spark: SparkSession,
    parts: Sequence[T],
    read: Callable[[T], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Return what `read` makes of each part, one task for each.

    The parts travel with the function, and a task knows its own by a number: rows of numbers need
    no shuffle to be spread evenly.
    """
    shape = spark_schema(schema)
    if not parts:
        return spark.createDataFrame([], shape)
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(named(read.__name__, _read_parts, tuple(parts), read), shape)


def _read_parts(
    parts: Sequence[Any],
    read: Callable[[Any], Iterator[pa.RecordBatch]],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from read(parts[number])


def pruner_of(snapshot: Snapshot, where: Where) -> Pruner:
    """Return what drops files of the snapshot that cannot match."""
    return Pruner.build(
        as_predicate(where),
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        mapping_mode=snapshot.column_mapping_mode,
        generated=snapshot.generates_columns,
    )


def check_guard(snapshot: Snapshot) -> None:
    """Ask the caller's retention guard, as a scan in this process does."""
    guard, segment = snapshot.config.retention_guard, snapshot.segment
    if guard is not None and not guard(segment.floor):
        raise RetentionGuardError(segment.table, segment.floor)
