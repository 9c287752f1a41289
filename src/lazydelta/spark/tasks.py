"""Read of one version, split into input partitions: planned in one process, read in others.

Spark's planning process has no session, so the rules of `spark.planner` are applied here without
jobs. A plan of few files lists them and splits the list by size. A plan of many files lists none:
tasks get splits of the log, find the live files in them and read those. So the memory of the
planner and the size of the plan do not grow with the table.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, string_scalar, to_numpy
from lazydelta.config import ReadOptions
from lazydelta.protocol.schemas import ADD
from lazydelta.replay import SeenFiles
from lazydelta.scan import Scan
from lazydelta.scan.plan import CheckpointSplit, SplitReader, split_tail
from lazydelta.scan.read import read_files
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.spark.arrow_conversion import serialize_table
from lazydelta.spark.conf import DEFAULTS, ReplaySettings
from lazydelta.spark.planner import list_files, pruner_for, split_by_size, split_log
from lazydelta.spark.spark_releases import InputPartition
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lazydelta.expressions import Predicate
    from lazydelta.log import LogSegment
    from lazydelta.spark.serialized_snapshot import SerializedSnapshot

__all__ = ["ZERO", "FileRange", "FilesPartition", "LogPartition", "SnapshotRead", "file_sizes"]

_LOCAL, _REMOTE = 1, 4
LONG = PrimitiveType("long")
ZERO = build_scalar(0, LONG)  # `pa.scalar` of a Python number imports pandas
_FIELDS = pa.schema(
    [
        ADD.field(name)
        for name in ("path", "size", "modificationTime", "partitionValues", "deletionVector")
    ]
)
_KEYS = pa.schema([ADD.field(name) for name in ("path", "deletionVector")])


@dataclass(frozen=True)
class FilesPartition(InputPartition):
    """Files to read: their adds, as an Arrow IPC stream."""

    adds: bytes


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """Part of the log whose live files a task finds and reads.

    Args:
        checkpoint: Parts of the checkpoint; None is the tail.
        at: First live file of the slice.
        slices: The slice holds every n-th live file.
    """

    checkpoint: tuple[CheckpointSplit, ...] | None
    at: int
    slices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """Range of a version's files, ordered by modification time and path.

    The order does not depend on the layout of the log. A bound is the modification time and path
    of a file as the log has them; None is unbounded.
    """

    after: tuple[int, str] | None = None
    """Exclusive lower bound."""
    last: tuple[int, str] | None = None
    """Inclusive upper bound."""

    def filter(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return the files in the range."""
        if self.after is not None:
            adds = adds.filter(pc.invert(_up_to(adds, self.after)))
        return adds if self.last is None else adds.filter(_up_to(adds, self.last))


def _up_to(adds: pa.RecordBatch, bound: tuple[int, str]) -> pa.BooleanArray:
    time, path = bound
    times, limit = pc.fill_null(adds.column("modificationTime"), ZERO), build_scalar(time, LONG)
    tied = pc.and_(pc.equal(times, limit), pc.less_equal(adds.column("path"), string_scalar(path)))
    return pc.or_(pc.less(times, limit), tied)


@dataclass(frozen=True, kw_only=True)
class SnapshotRead:
    """Read of the rows of one version, or of a range of its files; it can be pickled."""

    snapshot: SerializedSnapshot
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    files: FileRange = FileRange()
    tasks: int | None = None
    """Requested number of tasks, instead of the planner's."""
    settings: ReplaySettings = DEFAULTS
    """With more files than the threshold, tasks find theirs in the log."""

    @cached_property
    def scan(self) -> Scan:
        """The scan of this read, in this process."""
        return Scan(self.snapshot.open(), where=self.where, columns=self.columns)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the scan, which holds an open store."""
        return {name: value for name, value in self.__dict__.items() if name != "scan"}

    def plan(self) -> list[InputPartition]:
        """Return the input partitions."""
        limit = self.settings.file_threshold if self.settings.enabled else None
        with self.scan.add_batches() as batches:
            files = list_files(map(self.files.filter, batches), _FIELDS, limit)
        if files is None:
            most = self.tasks or self.settings.num_partitions
            parts, slices = split_log(self.scan.snapshot, self.where, most)
            return [LogPartition(part, at, slices) for part in parts for at in range(slices)]
        if not files.num_rows:
            return []
        table = pa.Table.from_batches([files])
        runs = split_by_size(file_sizes(table), self.tasks)
        return [FilesPartition(serialize_table(table.slice(run.start, len(run)))) for run in runs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an input partition."""
        if isinstance(partition, FilesPartition):
            return self.rows(pa.ipc.open_stream(partition.adds))
        if isinstance(partition, LogPartition):
            return self.rows(self._matching_adds(partition))
        return iter(())  # Spark replaces an empty plan by one placeholder partition

    def rows(self, adds: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files."""
        at_once = _LOCAL if is_local(self.scan.snapshot.store) else _REMOTE
        options = ReadOptions(files_at_once=at_once)
        with read_files(self.scan, adds, options=options) as batches:
            yield from batches

    # --- splits of the log

    def _matching_adds(self, partition: LogPartition) -> Iterator[pa.RecordBatch]:
        """Yield the files of the partition's slice that may match."""
        seen = 0
        for batch in self._live_adds(partition):
            adds = self.files.filter(batch)
            first = (partition.at - seen) % partition.slices
            seen += adds.num_rows
            if first < adds.num_rows:
                rows = np.arange(first, adds.num_rows, partition.slices)
                yield adds.take(from_numpy(rows)).select(_FIELDS.names)

    def _live_adds(self, partition: LogPartition) -> Iterator[pa.RecordBatch]:
        snapshot, location = self.scan.snapshot, self.snapshot.location
        reader = SplitReader(
            open_store=location.open,
            config=location.config,
            checkpoint=snapshot.segment.checkpoint,
            schema=_FIELDS,
            pruner=pruner_for(snapshot, self.where),
        )
        if partition.checkpoint is None:
            for split in split_tail(snapshot.segment, 1):
                for batch in reader.read_tail(split):
                    yield batch.filter(batch.column("isAdd"))
            return
        with closing(_tail_keys(reader, snapshot.segment)) as newer:
            for batch in reader.read_checkpoint(partition.checkpoint):
                keys = pc.coalesce(batch.column("key"), batch.column("path"))
                yield batch.filter(from_mask(~newer.contains(keys)))


def _tail_keys(reader: SplitReader, segment: LogSegment) -> SeenFiles:
    """Return the keys of all files with an action in the tail; the caller closes the set."""
    config = reader.config
    seen = SeenFiles(
        memory_limit=config.remove_set_memory_limit,
        capacity=config.remove_set_capacity,
        false_positive_rate=config.remove_set_false_positive_rate,
    )
    only_keys = replace(reader, schema=_KEYS)
    for run in split_tail(segment, 1):
        for batch in only_keys.read_tail(run):
            keys = pc.unique(batch.column("key"))
            seen.add(keys.filter(from_mask(~seen.contains(keys))))
    return seen


def file_sizes(files: pa.Table) -> np.ndarray:
    """Return the sizes of files; an unknown size is 0."""
    return to_numpy(pc.fill_null(files.column("size").combine_chunks(), ZERO))
