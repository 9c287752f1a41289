"""`checkpoint`: the checkpoint of a huge table, replayed, sorted and written by executors.

Live files come from the distributed replay, tombstones from commits and from the checkpoint before;
Spark sorts them all, and each sorted range becomes a file. The driver gets no more than the names
and counts of these files, holds the counts against the version's, and publishes.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.config import Config
from lazydelta.errors import ObjectExistsError
from lazydelta.scan import PartReader, split_tail
from lazydelta.snapshot import load_snapshot
from lazydelta.spark.adaptive import choose_replay
from lazydelta.spark.conf import replay_settings, storage_options_file
from lazydelta.spark.jobs import named
from lazydelta.spark.log_schema import spark_schema
from lazydelta.spark.replay import (
    distributed_log_replay,
    fields_to_read,
    mapped,
    not_in,
    tail_words,
)
from lazydelta.spark.shipped import ShippedSnapshot, open_here
from lazydelta.upkeep import CheckpointParts, CheckpointResult, TombstonePart, write_checkpoint

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.snapshot import Snapshot

__all__ = ["checkpoint"]

_FILES_PER_SIDECAR = 131_072
_REPORT = t.StructType([t.StructField("part", t.BinaryType())])


def checkpoint(
    spark: SparkSession,
    url: str | os.PathLike[str],
    version: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
) -> CheckpointResult:
    """Write the checkpoint of a version, the newest by default, and point `_last_checkpoint` at it.

    A table of fewer files than `spark.lazydelta.distributedLogReplay.fileThreshold` is left to this
    process, as is a version that has a checkpoint already. Else executors do the work: in tables
    with V2 checkpoints each writes sidecars of a range of the files; other tables get one file,
    sorted and written by one task, because several with fixed names could be mixed with those of
    another attempt.

    Args:
        spark: A session, classic or Spark Connect; its executors must have lazydelta installed
            and reach the table's store.
        url: The table's address.
        version: The version; it must still be in the log.
        storage_options: Settings of the store for this process; see `lazydelta.spark.read`.
        config: Settings of the engine; by default those of the `LAZYDELTA_*` environment.

    Raises:
        UnsupportedFeatureError: The table has a feature whose rules for writers we do not follow.
        LogCorruptError: The log contradicts its own `.crc`.
    """
    started = time.perf_counter()
    config = Config.from_env() if config is None else config
    store = open_here(url, storage_options, config, storage_options_file(spark))
    snapshot = load_snapshot(store, config, version=version)
    choice = choose_replay(snapshot, replay_settings(spark))
    if not choice.distributed or snapshot.segment.floor == snapshot.version:
        return write_checkpoint(snapshot)
    work = _Work(spark, snapshot, CheckpointParts.of(snapshot))
    expected = work.count()
    if not expected[0]:
        return write_checkpoint(snapshot)  # there is nothing to share out
    reports = work.written(choice.estimated_files, expected[0]).column("part").to_pylist()
    files = [pickle.loads(report) for report in reports]  # noqa: S301 - of this job's own tasks
    if None in files:  # somebody, an attempt of our own task perhaps, was first
        return write_checkpoint(load_snapshot(store, config, version=snapshot.version))
    return work.parts.publish(snapshot, files, expected=expected, started=started)


@dataclass(frozen=True)
class _Tasks:
    """What tasks do; it can be pickled."""

    shipped: ShippedSnapshot
    parts: CheckpointParts

    def key_adds(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return live files with their place in the order."""
        for batch in batches:
            if batch.num_rows:
                yield self.parts.add_rows(batch)

    def read_tombstones(self, part: TombstonePart) -> Iterator[pa.RecordBatch]:
        """Yield tombstones with their keys."""
        return self.parts.tombstones(self.shipped.open(), part)

    def write(self, expected: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a sorted range, and tell what became of it."""
        rows = (batch for batch in batches if batch.num_rows)
        try:
            for part in self.parts.write(self.shipped.open(), rows, expected=expected):
                yield _report(pickle.dumps(part))
        except ObjectExistsError:
            yield _report(pickle.dumps(None))


def _report(part: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([part], pa.binary())], names=_REPORT.names)


class _Work:
    """The jobs of one checkpoint."""

    def __init__(self, spark: SparkSession, snapshot: Snapshot, parts: CheckpointParts) -> None:
        self.parts = parts
        self._spark = spark
        self._snapshot = snapshot
        self._most_tasks = replay_settings(spark).num_partitions
        shipped = ShippedSnapshot.of(snapshot, storage_options_file(spark))
        self._tasks = _Tasks(shipped, parts)

    def count(self) -> tuple[int, int]:
        """Return how many live files there are, and of how many bytes, from a replay of its own."""
        files = distributed_log_replay(
            self._spark, self._snapshot, self._most_tasks, fields=["size"]
        )
        (found,) = files.select(f.count("*"), f.coalesce(f.sum("size"), f.lit(0))).collect()
        return found[0], found[1]

    def written(self, about: int, expected: int) -> pa.Table:
        """Return what tasks tell of the files they wrote."""
        order = [f.asc_nulls_first(name) for name in self.parts.order]
        rows = self._adds().unionByName(self._tombstones())
        if self.parts.is_v2:
            count = max(1, min(self._most_tasks, -(-about // _FILES_PER_SIDECAR)))
            rows = rows.repartitionByRange(count, *order)
        else:
            rows = rows.repartition(1)
        task = named("write_checkpoint", self._tasks.write, expected)
        return rows.sortWithinPartitions(*order).mapInArrow(task, _REPORT).toArrow()

    def _adds(self) -> DataFrame:
        live = distributed_log_replay(self._spark, self._snapshot, self._most_tasks)
        live = live.drop("commitVersion", "partitionValues_parsed")
        task = named("key_adds", self._tasks.key_adds)
        return live.mapInArrow(task, spark_schema(self.parts.schema))

    def _tombstones(self) -> DataFrame:
        spark, snapshot = self._spark, self._snapshot
        shape = self._keyed_schema()
        read = self._tasks.read_tombstones
        tail = mapped(spark, [TombstonePart(commits=True)], read, shape).drop("key")
        older = self.parts.tombstone_parts(snapshot)
        if not older:
            return tail
        address = self._tasks.shipped.address
        reader = PartReader(
            open_store=address.open,
            config=address.config,
            checkpoint=snapshot.segment.checkpoint,
            schema=fields_to_read(snapshot, []),
        )
        runs = split_tail(snapshot.segment, self._most_tasks)
        spoken_of = tail_words(spark, reader, runs, self._most_tasks)
        kept = not_in(mapped(spark, older, read, shape), spoken_of, snapshot.segment)
        return tail.unionByName(kept.drop("key"))

    def _keyed_schema(self) -> pa.Schema:
        return self.parts.schema.append(pa.field("key", pa.string()))
