"""`checkpoint`: the checkpoint of a huge table, replayed, sorted and written by executors.

Live files and tombstones come from the commits and from the checkpoint before. Where there are
sidecars, each is a range of the order, sorted by the task that writes it; one file is sorted by
Spark. The driver gets no more than a sample of the order and the names and counts of files, holds
the counts against the version's, and publishes.
"""

from __future__ import annotations

import pickle
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from lazydelta.checkpoint import CheckpointParts, CheckpointResult, TombstonePart, write_checkpoint
from lazydelta.config import Config
from lazydelta.protocol import ADD
from lazydelta.scan.plan import PartReader, split_checkpoint, split_tail
from lazydelta.snapshot import load_snapshot, skip_damaged_checkpoint
from lazydelta.spark.adaptive import choose_replay
from lazydelta.spark.checkpoint_ranges import CHUNKS, Ranges
from lazydelta.spark.checkpoint_tasks import REPORT, CheckpointTasks
from lazydelta.spark.conf import replay_settings, storage_options_file
from lazydelta.spark.jobs import named
from lazydelta.spark.log_schema import spark_schema
from lazydelta.spark.replay import distributed_log_replay, fields_to_read, mapped, tail_words
from lazydelta.spark.shipped import ShippedSnapshot, open_here

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.snapshot import Snapshot

__all__ = ["checkpoint"]

_FILES_PER_SIDECAR = 110_000
"""A sample does not cut evenly, and more than 131,072 would be two."""


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
    work = skip_damaged_checkpoint(snapshot, lambda sound: _Work(spark, sound))
    expected = work.count()
    if not expected[0]:
        return write_checkpoint(snapshot)  # there is nothing to share out
    reports = work.written(choice.estimated_files, expected[0]).sort_by("range")
    files = [pickle.loads(part) for part in reports.column("part").to_pylist()]  # noqa: S301 - ours
    if None in files:  # somebody, an attempt of our own task perhaps, was first
        return write_checkpoint(load_snapshot(store, config, version=snapshot.version))
    return work.parts.publish(work.snapshot, files, expected=expected, started=started)


class _Work:
    """The jobs of one checkpoint."""

    def __init__(self, spark: SparkSession, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.parts = CheckpointParts.of(snapshot)
        self._spark = spark
        self._most_tasks = replay_settings(spark).num_partitions
        shipped = ShippedSnapshot.of(snapshot, storage_options_file(spark))
        files = snapshot.segment.checkpoint
        old = None if files is None else snapshot.open_checkpoint(files)
        reader = PartReader(
            open_store=shipped.address.open,
            config=shipped.address.config,
            checkpoint=files,
            schema=fields_to_read(snapshot, [*ADD.names, "stats_parsed"], old),
        )
        self._tasks = CheckpointTasks(shipped, self.parts, reader)
        self._old: list[Any] = [*self.parts.tombstone_parts(snapshot)]
        if old is not None:
            self._old += split_checkpoint(old, self._most_tasks, reader.pruner)

    def count(self) -> tuple[int, int]:
        """Return how many live files there are, and of how many bytes, from a replay of its own."""
        files = distributed_log_replay(
            self._spark, self.snapshot, self._most_tasks, fields=["size"]
        )
        (found,) = files.select(f.count("*"), f.coalesce(f.sum("size"), f.lit(0))).collect()
        return found[0], found[1]

    def written(self, about: int, expected: int) -> pa.Table:
        """Return what tasks tell of the files they wrote."""
        return self._sidecars(about) if self.parts.is_v2 else self._one_file(expected)

    def _one_file(self, expected: int) -> pa.Table:
        rows = self._tail().unionByName(self._of_old(self._tasks.read_old, self.parts.schema))
        order = [f.asc_nulls_first(name) for name in self.parts.order]
        task = named("write_checkpoint", self._tasks.write, expected)
        return rows.repartition(1).sortWithinPartitions(*order).mapInArrow(task, REPORT).toArrow()

    def _sidecars(self, about: int) -> pa.Table:
        ranges = Ranges.of(self._sample(), max(1, -(-about // _FILES_PER_SIDECAR)))
        old = self._of_old(named("cut_old", self._tasks.cut_old, ranges), CHUNKS)
        cut = named("cut_new", self._tasks.cut_new, ranges)
        new = self._tail().mapInArrow(cut, spark_schema(CHUNKS))
        chunks = old.unionByName(new).repartition(2 * ranges.count, "range")
        task = named("write_sidecars", self._tasks.write_ranges)
        return chunks.sortWithinPartitions("range").mapInArrow(task, REPORT).toArrow()

    def _sample(self) -> pa.Table:
        schema = pa.schema([self.parts.schema.field(name) for name in self.parts.order])
        new = self._tail().mapInArrow(named("sample", self._tasks.sample), spark_schema(schema))
        found = self._of_old(self._tasks.sample_old, schema).unionByName(new).toArrow()
        return found.cast(schema)

    def _of_old(
        self, read: Callable[[Any], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> DataFrame:
        """Return what `read` makes of each part of the old checkpoint."""
        return mapped(self._spark, self._old, read, schema)

    def _tail(self) -> DataFrame:
        """Return the rows that are the commits' last word on a file."""
        spark, tasks = self._spark, self._tasks
        runs = split_tail(self.snapshot.segment, self._most_tasks)
        words = tail_words(spark, tasks.reader, runs, self._most_tasks)
        adds = words.where("isAdd").select(tasks.reader.schema.names)
        adds = adds.mapInArrow(
            named("place_adds", tasks.place_adds), spark_schema(self.parts.schema)
        )
        commits = [TombstonePart(commits=True)]
        gone = mapped(spark, commits, tasks.read_tombstones, self.parts.schema)
        return adds.unionByName(gone)
