"""What the tasks of the data source do: plan a read of one version, and read a part of it.

A plan of few files is made where the query is planned, and its files are shared out by size. Of
many files no list is ever made: tasks get parts of the log, find the files in them, and read those.
So what the planner holds, and what travels, does not grow with the table.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from lazydelta._arrow import from_numpy, integers, selection, text
from lazydelta.config import ReadOptions
from lazydelta.protocol import ADD
from lazydelta.replay import SeenFiles
from lazydelta.scan import Scan
from lazydelta.scan.plan import CheckpointPart, PartReader, split_checkpoint, split_tail
from lazydelta.scan.read import read_files
from lazydelta.schema import PrimitiveType, build_scalar
from lazydelta.spark.replay import pruner_of
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lazydelta.expr import Predicate
    from lazydelta.log import LogSegment
    from lazydelta.schema import StructType
    from lazydelta.spark.shipped import ShippedSnapshot

__all__ = [
    "ZERO",
    "FilesPart",
    "LogPart",
    "SnapshotRead",
    "Span",
    "share_out",
    "sizes_of",
    "spoken_of",
]

_LEAST_BYTES, _MOST_BYTES = 16 << 20, 128 << 20
_BYTES_PER_FILE = 4 << 20
"""What opening a file costs, in bytes that could be read meanwhile; Spark says the same."""
_FILES_PER_TASK = 1000
_MOST_SLICES = 16
_LOCAL, _REMOTE = 1, 4
LONG = PrimitiveType("long")
ZERO = build_scalar(0, LONG)  # pyarrow would import pandas to make one of a Python number
_FIELDS = pa.schema(
    [
        ADD.field(name)
        for name in ("path", "size", "modificationTime", "partitionValues", "deletionVector")
    ]
)
_KEYS = pa.schema([ADD.field(name) for name in ("path", "deletionVector")])


@dataclass(frozen=True)
class FilesPart(InputPartition):
    """Files to read: their adds, as an Arrow stream."""

    adds: bytes


@dataclass(frozen=True)
class LogPart(InputPartition):
    """Files that are yet to be found: those of the tail, or of parts of the checkpoint.

    Every `slices`-th of them belongs to this part, from the one at `at` on.
    """

    checkpoint: tuple[CheckpointPart, ...] | None
    at: int
    slices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of a version's files in the order of their times and paths, which no log disturbs.

    Both ends are a file's modification time and path as the log has it: the last one before the
    run, and the last one of it. None is the end of the table.
    """

    after: tuple[int, str] | None = None
    last: tuple[int, str] | None = None

    def of(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return the files that belong to the run."""
        if self.after is not None:
            adds = adds.filter(pc.invert(_up_to(adds, self.after)))
        return adds if self.last is None else adds.filter(_up_to(adds, self.last))


def _up_to(adds: pa.RecordBatch, place: tuple[int, str]) -> pa.BooleanArray:
    time, path = place
    times, limit = pc.fill_null(adds.column("modificationTime"), ZERO), build_scalar(time, LONG)
    tied = pc.and_(pc.equal(times, limit), pc.less_equal(adds.column("path"), text(path)))
    return pc.or_(pc.less(times, limit), tied)


@dataclass(frozen=True, kw_only=True)
class SnapshotRead:
    """A read of rows of one version, or of a run of its files; it can be pickled."""

    shipped: ShippedSnapshot
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    span: Span = Span()
    tasks: int = 50
    """How many are wanted, where there is work for so many."""
    most_files: int = 10_000
    """A longer list of files is not made in one place: tasks find theirs in the log."""

    @cached_property
    def scan(self) -> Scan:
        """The scan that it is, in this process."""
        return Scan(self.shipped.open(), where=self.where, columns=self.columns)

    @property
    def filterable(self) -> StructType:
        """The columns that a predicate may name."""
        return self.scan.snapshot.schema

    def __getstate__(self) -> dict[str, object]:
        """Leave out what belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "scan"}

    def plan(self) -> list[InputPartition]:
        """Return the parts of the read."""
        found: list[pa.RecordBatch] = []
        count = 0
        with self.scan.add_batches() as batches:
            for batch in batches:
                adds = self.span.of(batch)
                count += adds.num_rows
                if count > self.most_files:
                    return self._log_parts()
                found.append(adds.select(_FIELDS.names))
        if not count:
            return []
        table = pa.Table.from_batches(found).combine_chunks()
        runs = share_out(sizes_of(table), self.tasks)
        return [FilesPart(_stream(table.slice(run.start, len(run)))) for run in runs]

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        if isinstance(part, FilesPart):
            return self.rows(pa.ipc.open_stream(part.adds))
        if isinstance(part, LogPart):
            return self.rows(self._found(part))
        return iter(())  # Spark makes one part of nothing where a plan has none

    def rows(self, adds: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        at_once = _LOCAL if is_local(self.scan.snapshot.store) else _REMOTE
        options = ReadOptions(files_at_once=at_once)
        with read_files(self.scan, adds, options=options) as batches:
            yield from batches

    # --- parts of the log

    def _log_parts(self) -> list[InputPartition]:
        snapshot = self.scan.snapshot
        files = snapshot.segment.checkpoint
        work: list[tuple[CheckpointPart, ...] | None] = [None] if snapshot.segment.tail else []
        if files is not None:
            pruner = pruner_of(snapshot, self.where)
            work += split_checkpoint(snapshot.open_checkpoint(files), self.tasks, pruner)
        expected = snapshot.estimated_files() or 0
        wanted = max(self.tasks, expected // _FILES_PER_TASK)
        slices = max(1, min(wanted // max(1, len(work)), _MOST_SLICES))
        return [LogPart(part, at, slices) for part in work for at in range(slices)]

    def _found(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        """Yield the live files of a part of the log that may match."""
        seen = 0
        for batch in self._live(part):
            adds = self.span.of(batch)
            first = (part.at - seen) % part.slices
            seen += adds.num_rows
            if first < adds.num_rows:
                rows = np.arange(first, adds.num_rows, part.slices)
                yield adds.take(from_numpy(rows)).select(_FIELDS.names)

    def _live(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        snapshot, config = self.scan.snapshot, self.shipped.address.config
        reader = PartReader(
            open_store=self.shipped.address.open,
            config=config,
            checkpoint=snapshot.segment.checkpoint,
            schema=_FIELDS,
            pruner=pruner_of(snapshot, self.where),
        )
        if part.checkpoint is None:
            for run in split_tail(snapshot.segment, 1):
                for batch in reader.read_tail(run):
                    yield batch.filter(batch.column("isAdd"))
            return
        with closing(spoken_of(reader, snapshot.segment)) as newer:
            for batch in reader.read_checkpoint(part.checkpoint):
                keys = pc.coalesce(batch.column("key"), batch.column("path"))
                yield batch.filter(selection(~newer.contains(keys)))


def spoken_of(reader: PartReader, segment: LogSegment) -> SeenFiles:
    """Return the keys of all files that the tail speaks of, read here; the caller closes it."""
    config = reader.config
    found = SeenFiles(
        memory_limit=config.remove_set_memory_limit,
        capacity=config.remove_set_capacity,
        false_positive_rate=config.remove_set_false_positive_rate,
    )
    only_keys = replace(reader, schema=_KEYS)
    for run in split_tail(segment, 1):
        for batch in only_keys.read_tail(run):
            keys = pc.unique(batch.column("key"))
            found.add(keys.filter(selection(~found.contains(keys))))
    return found


def sizes_of(files: pa.Table) -> np.ndarray:
    """Return the sizes of files; one that is not stated counts as nothing."""
    return integers(pc.fill_null(files.column("size").combine_chunks(), ZERO))


def share_out(sizes: np.ndarray, tasks: int) -> list[range]:
    """Return runs of files of about equal work: as many as are wanted, none too small or large."""
    weights = sizes + _BYTES_PER_FILE
    total = int(weights.sum())
    count = max(-(-total // _MOST_BYTES), min(tasks, total // _LEAST_BYTES), 1)
    middles = np.cumsum(weights) - weights // 2
    ends = np.searchsorted(middles, total * np.arange(1, count + 1) // count)
    starts = np.concatenate([[0], ends[:-1]])
    return [range(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True) if a < b]


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
