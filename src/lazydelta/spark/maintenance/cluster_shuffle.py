"""Cluster the rows of a large bin: a shuffle by ranges of the curve.

Rows are sent as Arrow buffers, one for each range and task: Spark moves them without
converting a value. The ranges come from a sample, so a repeated task sends the same rows to the
same ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.errors import InternalError
from lazydelta.operations.optimize import Bin, recorded_rows
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import serialize_table
from lazydelta.spark.jobs import named_task
from lazydelta.spark.planner import map_splits, split_by_size
from lazydelta.spark.spark_releases import collect_arrow, repartition_by_id
from lazydelta.spark.write_tasks import RESULT, collect_results, task_result
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from lazydelta.operations import UncommittedFiles
    from lazydelta.operations.optimize import CurveSort, Rewriter
    from lazydelta.spark.serialized_snapshot import SerializedSnapshot

__all__ = ["ClusterShuffle"]

_SAMPLE = pa.schema([("rows", pa.binary())])
_SHUFFLED = pa.schema([("range", pa.int32()), ("rows", pa.binary()), ("count", pa.int64())])
"""Rows of a range. Each task that reads also sends the number of its rows, to an extra range."""


@dataclass(frozen=True, kw_only=True)
class ClusterShuffle:
    """Clusters bins with a shuffle each."""

    spark: SparkSession
    snapshot: SerializedSnapshot
    rewriter: Rewriter

    def cluster(self, one: Bin, files: UncommittedFiles) -> pa.Table | None:
        """Write the rows of a bin in the order of the curve; return the add actions.

        None if the sampled files have no rows, so that nothing is known of the others.

        Args:
            one: The bin.
            files: Records the new files.

        Raises:
            InternalError: The new files do not have as many rows as were read.
        """
        clustering = self.rewriter.clustering
        assert clustering is not None  # noqa: S101 - the caller clusters
        task = _ClusterTask(snapshot=self.snapshot, rewriter=self.rewriter)
        sample = self._sample(task, clustering.sample_files(one.files))
        if not sample:
            return None
        memory = self.snapshot.location.config.operation_memory
        split = partial(clustering.curve_sort, sample)
        target = self.rewriter.layout.target_file_bytes
        ranges = split(num_bytes=one.size, bucket_bytes=target)
        finer = split(
            num_bytes=one.size * tuning.CLUSTER_EXPANSION,
            bucket_bytes=max(memory // tuning.CLUSTER_MEMORY_SHARE, 1),
        )
        parts = _split(one.files, tuning.CLUSTER_TASKS)
        task = replace(task, ranges=ranges, finer=finer, num_parts=len(parts))
        rows = map_splits(self.spark, parts, task.scatter, _SHUFFLED)
        shuffled = repartition_by_id(rows, task.counts + 1, "range")
        written = shuffled.mapInArrow(named_task("write_range", task.write), RESULT)
        done = collect_results(collect_arrow(written))
        files.add(done.adds)
        if done.rows:
            raise InternalError(f"clustering read and wrote different rows: {done.rows:+,}")
        return self.rewriter.tagged(done.adds)

    def _sample(self, task: _ClusterTask, files: pa.Table) -> list[pa.RecordBatch]:
        parts = _split(files, tuning.SAMPLE_TASKS)
        found = collect_arrow(map_splits(self.spark, parts, task.sample, _SAMPLE))
        tables = (pa.ipc.open_stream(rows) for rows in found.column("rows").to_pylist())
        return [batch for table in tables for batch in table if batch.num_rows]


def _split(files: pa.Table, tasks: int) -> list[bytes]:
    sizes = to_numpy(files.column("size").combine_chunks())
    return [
        serialize_table(files.slice(run.start, len(run))) for run in split_by_size(sizes, tasks)
    ]


@dataclass(frozen=True, kw_only=True)
class _ClusterTask:
    """The tasks of a clustering; it can be pickled."""

    snapshot: SerializedSnapshot
    rewriter: Rewriter
    ranges: CurveSort | None = None
    """Its buckets are the tasks that write files."""
    finer: CurveSort | None = None
    """Its buckets are sorted in memory."""
    num_parts: int = 0
    """How many tasks read."""

    @property
    def counts(self) -> int:
        """The range of the row counts."""
        assert self.ranges is not None  # noqa: S101
        return len(self.ranges.buckets) + 1

    def sample(self, part: bytes) -> Iterator[pa.RecordBatch]:
        """Yield a sample of the rows of files."""
        assert self.rewriter.clustering is not None  # noqa: S101
        snapshot = self.snapshot.open()
        files = pa.ipc.open_stream(part).read_all()
        options = self.rewriter.read_options(snapshot)
        batches = self.rewriter.clustering.sample(snapshot, files, options)
        if batches:
            rows = pa.Table.from_batches(batches)
            step = -(-rows.num_rows // (tuning.SAMPLED_ROWS * files.num_rows))
            if step > 1:
                rows = rows.take(from_numpy(np.arange(0, rows.num_rows, step)))
            yield pa.RecordBatch.from_arrays([pa.array([serialize_table(rows)])], schema=_SAMPLE)

    def scatter(self, part: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files by range, and their number."""
        assert self.ranges is not None  # noqa: S101
        one, count = Bin(pa.ipc.open_stream(part).read_all()), 0
        with self.rewriter.rows(self.snapshot.open(), one) as rows:
            for parts in self.ranges.scattered(rows, tuning.SHUFFLE_BUFFER):
                numbers = [number for number, _ in parts]
                counts = [batch.num_rows for _, batch in parts]
                count += sum(counts)
                sent = [serialize_table(pa.Table.from_batches([batch])) for _, batch in parts]
                yield _shuffled(numbers, sent, counts)
        yield _shuffled([self.counts], [b""], [count])

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a range in the order of the curve; or add up the row counts."""
        for first in batches:
            number = first.column("range")[0].as_py()
            received = chain([first], batches)
            if number == self.counts:
                yield from task_result(lambda: self._sum_counts(received))  # noqa: B023
            else:
                yield from task_result(lambda: self._write_range(number, received))  # noqa: B023

    def _sum_counts(self, batches: Iterable[pa.RecordBatch]) -> tuple[pa.Table, int]:
        counts = [count for batch in batches for count in batch.column("count").to_pylist()]
        if len(counts) != self.num_parts:
            raise InternalError(f"{len(counts)} row counts of {self.num_parts} tasks")
        return ADDS.empty_table(), -sum(counts)  # those of all tasks add up to 0

    def _write_range(self, number: int, batches: Iterable[pa.RecordBatch]) -> tuple[pa.Table, int]:
        ranges, finer, layout = self.ranges, self.finer, self.rewriter.layout
        assert ranges is not None  # noqa: S101
        assert finer is not None  # noqa: S101
        # A range has about the target size: what exceeds it does not become a file of its own.
        most = int(layout.target_file_bytes * tuning.RANGE_SLACK)
        rewriter = replace(self.rewriter, layout=replace(layout, target_file_bytes=most))
        ordered = ranges.part(finer, number).sorted(_rows(batches))
        adds = rewriter.write(self.snapshot.open(), ordered)
        return adds, recorded_rows(adds)


def _shuffled(ranges: list[int], rows: list[bytes], counts: list[int]) -> pa.RecordBatch:
    columns = [pa.array(ranges, pa.int32()), pa.array(rows, pa.binary()),
        pa.array(counts, pa.int64())]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=_SHUFFLED)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.column("rows")
        for at in range(len(rows)):
            yield from pa.ipc.open_stream(rows[at].as_buffer())
