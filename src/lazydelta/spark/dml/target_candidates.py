"""Files that may have rows that a verb changes: listed by the driver, or found by executors.

The rule of `read` decides: executors replay the log of a large table. If too many files are left
after data skipping, the driver receives the add actions of files with changed rows only. Such a
file is known by a hash of its path, which a task that is repeated computes again; two files with
one hash are an error before the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from lazydelta.errors import InternalError
from lazydelta.expressions.nodes import IsTrue, Not
from lazydelta.operations.dml import split_by_statistics
from lazydelta.spark.conf import replay_settings
from lazydelta.spark.dml.frame_columns import INDEX, NUMBERED_FILES
from lazydelta.spark.dml.target import RowRead, TargetFiles, read_rows, rows_schema
from lazydelta.spark.jobs import named_task
from lazydelta.spark.planner import (
    choose_replay,
    distributed_log_replay,
    few_live_files,
    num_read_tasks,
    pruner_for,
)
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as t

    from lazydelta.expressions import Predicate
    from lazydelta.replay.skipping import Pruner
    from lazydelta.snapshot import SnapshotState

__all__ = ["Candidates", "ReplayedFiles", "candidate_files", "split_files"]

_PRUNED_BY = "stats"


def candidate_files(
    spark: SparkSession, snapshot: SnapshotState, where: Predicate | None
) -> Candidates:
    """Return the files that may have a matching row."""
    adds = few_live_files(spark, snapshot, where, ADDS)
    if adds is None:
        return ReplayedFiles.at(spark, snapshot, where)
    return TargetFiles.listed(spark, snapshot, pa.Table.from_batches([adds], ADDS))


def split_files(
    spark: SparkSession,
    snapshot: SnapshotState,
    where: Predicate | None,
    files: pa.Table | None = None,
) -> tuple[TargetFiles, Candidates]:
    """Return the files of which all rows match, and those of which some may.

    Partition values and statistics decide; no data file is opened.

    Args:
        spark: The session.
        snapshot: The table.
        where: The condition on its rows.
        files: Add actions of the files to search; by default those of the snapshot.
    """
    if files is not None or not choose_replay(snapshot, replay_settings(spark)).distributed:
        whole, adds = split_by_statistics(snapshot, where, files)
        undecided = TargetFiles.listed(spark, snapshot, adds)
        return TargetFiles.listed(spark, snapshot, whole, adds.num_rows), undecided
    replayed = ReplayedFiles.at(spark, snapshot, where)
    nothing = TargetFiles.listed(spark, snapshot, ADDS.empty_table())
    if where is None:
        return replayed.collected(), nothing
    others = pruner_for(snapshot, Not(IsTrue(where)))
    if others.rule is None:
        return nothing, replayed
    return replayed.collected(others), replace(replayed, others=others)


@dataclass(frozen=True, kw_only=True)
class ReplayedFiles:
    """Files that executors find in the log; the driver has none of them."""

    spark: SparkSession
    snapshot: SnapshotState
    where: Predicate | None
    """Only files that may have a matching row."""
    num_tasks: int
    """How many tasks should read the files."""
    others: Pruner | None = None
    """If set, only files that it keeps: those that may have a row that does not match."""
    is_empty = False

    @classmethod
    def at(
        cls, spark: SparkSession, snapshot: SnapshotState, where: Predicate | None
    ) -> ReplayedFiles:
        """Return the files of a version."""
        settings = replay_settings(spark)
        choice = choose_replay(snapshot, settings)
        num_tasks = num_read_tasks(choice.estimated_files, settings.num_partitions)
        return cls(spark=spark, snapshot=snapshot, where=where, num_tasks=num_tasks)

    def rows(self, columns: Sequence[str], where: Predicate | None = None) -> DataFrame:
        """Return columns of the files' rows, `FILE` and `ROW`; see `TargetFiles.rows`."""
        schema = rows_schema(self.snapshot, columns)
        read = RowRead.of(self.spark, self.snapshot, columns, where)
        files = self if where is None else replace(self, where=where)
        return files.map_files("read_rows", schema, read_rows, read, schema)

    def map_files(
        self,
        name: str,
        schema: t.StructType,
        function: Callable[..., Iterator[pa.RecordBatch]],
        *arguments: object,
    ) -> DataFrame:
        """Return what a function yields for files in the schema of `NUMBERED_FILES`.

        Files are distributed by a hash of their path, so a repeated task gets the same files.
        """
        names = NUMBERED_FILES.names
        if self.others is None:
            files = self._frame(names)
        else:
            files = self._frame([*names, _PRUNED_BY])
            task = named_task("skip_files", _skip_files, self.others, True)
            files = files.mapInArrow(task, files.schema).select(*names)
        spread = files.repartition(self.num_tasks, "path")
        task = named_task(name, _map_batches, partial(function, *arguments))
        return spread.mapInArrow(task, schema)

    def chosen(self, numbers: Sequence[int]) -> TargetFiles:
        """Return the files with these numbers, in their order.

        Raises:
            InternalError: Not one file for each number.
        """
        if not numbers:
            return TargetFiles.listed(self.spark, self.snapshot, ADDS.empty_table())
        wanted = pa.table([pa.array(numbers, pa.int64())], pa.schema([INDEX]))
        wanted_frame = frame_of_arrow(self.spark, wanted, "index long")
        files = self._frame([INDEX.name, *ADDS.names])
        found = files.join(f.broadcast(wanted_frame), INDEX.name, "left_semi")
        return self._target(found).chosen(numbers)

    def collected(self, others: Pruner | None = None) -> TargetFiles:
        """Return all files, or those that a pruner skips."""
        files = self._frame([INDEX.name, *ADDS.names])
        if others is not None:
            files = files.mapInArrow(
                named_task("skip_files", _skip_files, others, False), files.schema
            )
        return self._target(files)

    def _target(self, files: DataFrame) -> TargetFiles:
        found = collect_arrow(files).combine_chunks()
        adds = found.select(ADDS.names).cast(ADDS)
        numbers = found.column(INDEX.name).combine_chunks()
        if pc.count_distinct(numbers).as_py() != len(numbers):
            raise InternalError("two data files have the same hash of their path")
        return TargetFiles(spark=self.spark, snapshot=self.snapshot, adds=adds, numbers=numbers)

    def _frame(self, names: Sequence[str]) -> DataFrame:
        """Return the fields of the files' adds, and their number."""
        num_partitions = replay_settings(self.spark).num_partitions
        fields = [name for name in names if name not in (INDEX.name, "path")]
        files = distributed_log_replay(
            self.spark, self.snapshot, num_partitions, where=self.where, fields=fields
        )
        return files.withColumn(INDEX.name, f.xxhash64("path")).select(*names)


Candidates = TargetFiles | ReplayedFiles
"""Files with the same methods: rows with positions, and add actions by number."""


def _skip_files(
    others: Pruner, keeps: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the files that a pruner keeps, or the files that it skips."""
    for batch in batches:
        mask = others.mask(batch)
        if mask is not None:
            yield batch.filter(mask if keeps else pc.invert(mask))
        elif keeps:
            yield batch


def _map_batches(
    function: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from function(batch.cast(NUMBERED_FILES))
