"""Batches of a stream: end offsets, input partitions, and their rows.

Plans from the log alone. Between the end offset of a batch and its input partitions it keeps the
file sizes of the batch's commits, so that each is listed and read once. Memory is bounded by the
batch: these sizes, and the files of a version that the batch reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.changes import RequestedRange, find_range, read_commits
from lazydelta.errors import LogGapError
from lazydelta.expressions import as_predicate
from lazydelta.log import LogFile
from lazydelta.snapshot import load_snapshot
from lazydelta.spark.changes import ChangesRead
from lazydelta.spark.planner import split_by_size
from lazydelta.spark.spark_releases import InputPartition
from lazydelta.spark.stream_log import StreamLog
from lazydelta.spark.tasks import ZERO, FileRange, SnapshotRead, file_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.spark.serialized_snapshot import SerializedSnapshot
    from lazydelta.spark.source_options import SourceOptions
    from lazydelta.spark.stream_offsets import Offset

__all__ = ["Budget", "StreamReads"]

_ROWS_BETWEEN_CUTS = 50_000
_ORDER = [("modificationTime", "ascending"), ("path", "ascending")]

CommitSlice: TypeAlias = tuple[LogFile, int, int]
"""A commit, and a half-open range of its files."""


@dataclass(frozen=True)
class ReadPartition(InputPartition):
    """An input partition of the read of a version, or of changes."""

    read: SnapshotRead | ChangesRead
    partition: InputPartition


@dataclass(frozen=True)
class AppendedPartition(InputPartition):
    """Files that commits added."""

    slices: tuple[CommitSlice, ...]


@dataclass(slots=True)
class Budget:
    """Remaining limits of a batch; None is unlimited. A batch has at least one file."""

    files: int | None = None
    bytes: int | None = None
    is_fresh: bool = True

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit."""
        return self.files is None and self.bytes is None

    def fits(self, sizes: np.ndarray) -> int:
        """Return how many of these files, from the first on, fit into the batch."""
        count = len(sizes) if self.files is None else min(len(sizes), self.files)
        if self.bytes is not None:
            count = min(count, int(np.searchsorted(np.cumsum(sizes), self.bytes, side="right")))
        return max(count, 1) if self.is_fresh and len(sizes) else count

    def spend(self, sizes: np.ndarray) -> None:
        """Deduct files."""
        if self.files is not None:
            self.files = max(0, self.files - len(sizes))
        if self.bytes is not None:
            self.bytes = max(0, self.bytes - int(sizes.sum()))
        self.is_fresh = self.is_fresh and not len(sizes)


@dataclass(frozen=True, kw_only=True)
class StreamReads:
    """Plans and reads the batches of one stream; it can be pickled.

    Args:
        options: The options of the stream.
        pinned: The version whose schema the rows have.
    """

    options: SourceOptions
    pinned: SerializedSnapshot

    @cached_property
    def log(self) -> StreamLog:
        """The commits of the table."""
        return StreamLog(self.pinned.open(), self.options)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the log, which holds an open store."""
        return {"options": self.options, "pinned": self.pinned}

    # --- end of a batch

    def advance(self, start: Offset, budget: Budget, *, until: int | None = None) -> Offset:
        """Return the end offset of the batch that starts at an offset.

        Args:
            start: The end offset of the previous batch.
            budget: The limits of the batch.
            until: The last version to read; None is the latest.
        """
        place = start
        if place.snapshot:
            place = self._advance_in_snapshot(place, budget)
            if place.snapshot:
                return place
        for file in self.log.commits(place.version, until):
            sizes = self.log.file_sizes(file)[place.index :]
            count = budget.fits(sizes)
            if self.options.read_change_feed and not budget.is_fresh and count < len(sizes):
                return place  # the changes of a commit stay in one batch
            if not self.options.read_change_feed and count < len(sizes):
                budget.spend(sizes[:count])
                return place.at(file.version, place.index + count)
            budget.spend(sizes)
            place = place.at(file.version + 1)
        return place

    def _advance_in_snapshot(self, place: Offset, budget: Budget) -> Offset:
        end = place.at(place.version + 1)
        if budget.is_unlimited:
            return end
        read = self._snapshot_read(place.version, FileRange(after=place.after))
        with read.scan.add_batches() as batches:
            files, is_all = _first_files(map(read.files.filter, batches), budget)
        sizes = file_sizes(files)
        budget.spend(sizes)
        if is_all:
            return end
        last = files.slice(files.num_rows - 1).to_pylist()[0]
        return place.within(files.num_rows, (last["modificationTime"], last["path"]))

    # --- input partitions

    def plan(self, first: Offset, last: Offset) -> list[InputPartition]:
        """Return the input partitions between two offsets."""
        parts: list[InputPartition] = []
        if first.snapshot:
            is_within = last.snapshot and last.version == first.version
            files = FileRange(after=first.after, last=last.after if is_within else None)
            read = self._snapshot_read(first.version, files)
            parts += [ReadPartition(read, part) for part in read.plan()]
            if is_within:
                return parts
            first = first.at(first.version + 1)
        end = last.version if last.index else last.version - 1
        if end < first.version:
            return parts
        if self.options.read_change_feed:
            return parts + self._changes(first.version, end)
        return parts + self._appended(first, last, end)

    def _changes(self, first: int, end: int) -> list[InputPartition]:
        store, config = self.log.snapshot.store, self.log.snapshot.config
        change_range = find_range(
            store, config, RequestedRange(starting_version=first, ending_version=end)
        )
        self.log.check_snapshot(change_range.end)
        read = ChangesRead.of(
            replace(change_range, end=self.log.snapshot),
            options_file=self.options.storage_options_file,
            columns=self.options.columns,
            where=as_predicate(self.options.where),
        )
        return [ReadPartition(read, part) for part in read.plan()]

    def _appended(self, first: Offset, last: Offset, end: int) -> list[InputPartition]:
        commits = self.log.commits(first.version, end)
        if len(commits) != end - first.version + 1:
            raise LogGapError(self.pinned.location.root, (first.version + len(commits),), end)
        slices: list[tuple[LogFile, int, np.ndarray]] = []
        for file in commits:
            sizes = self.log.file_sizes(file)
            start = first.index if file.version == first.version else 0
            stop = last.index if file.version == last.version else len(sizes)
            if start < stop:
                slices.append((file, start, sizes[start:stop]))
        return [
            AppendedPartition(run) for run in _split_slices(slices, self.options.num_partitions)
        ]

    def _snapshot_read(self, version: int, files: FileRange) -> SnapshotRead:
        """Return the read of a version in the schema of the stream."""
        own = self.log.snapshot
        snapshot = load_snapshot(own.store, own.config, version=version)
        self.log.check_snapshot(snapshot)
        return SnapshotRead(
            snapshot=replace(
                self.pinned,
                segment=snapshot.segment,
                checksum=snapshot.checksum,
                hint=snapshot.hint,
            ),
            columns=self.options.columns,
            where=as_predicate(self.options.where),
            files=files,
            tasks=self.options.num_partitions,
            settings=self.options.replay,
        )

    # --- rows

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an input partition."""
        if isinstance(partition, ReadPartition):
            return partition.read.read(partition.partition)
        if not isinstance(partition, AppendedPartition):
            return iter(())
        read = SnapshotRead(
            snapshot=self.pinned,
            columns=self.options.columns,
            where=as_predicate(self.options.where),
        )
        return read.rows(self._adds(partition.slices))

    def _adds(self, slices: Sequence[CommitSlice]) -> Iterator[pa.RecordBatch]:
        own = self.log.snapshot
        commits = read_commits(own.store, own.config, [s[0] for s in slices], every_file=True)
        for commit, (_, start, stop) in zip(commits, slices, strict=True):
            yield from commit.adds.slice(start, stop - start).to_batches()


def _first_files(batches: Iterable[pa.RecordBatch], budget: Budget) -> tuple[pa.Table, bool]:
    """Return the files that fit, in the order of a `FileRange`, and whether these are all files.

    Memory is bounded by the files that fit and the batches since the last cut.
    """
    schema = pa.schema([("path", pa.string()), *((n, pa.int64()) for n in _NUMBERS)])
    kept, is_all, waiting = schema.empty_table(), True, 0
    for batch in batches:
        arrays = [batch.column("path"), *(pc.fill_null(batch.column(n), ZERO) for n in _NUMBERS)]
        part = pa.Table.from_arrays(arrays, schema=schema)
        kept, waiting = pa.concat_tables([kept, part]), waiting + part.num_rows
        if waiting > _ROWS_BETWEEN_CUTS:
            kept, is_cut = _cut(kept, budget)
            is_all, waiting = is_all and not is_cut, 0
    kept, is_cut = _cut(kept, budget)
    return kept, is_all and not is_cut


_NUMBERS = ("modificationTime", "size")


def _cut(files: pa.Table, budget: Budget) -> tuple[pa.Table, bool]:
    ordered = files.sort_by(_ORDER)
    count = budget.fits(file_sizes(ordered))
    return ordered.slice(0, count).combine_chunks(), count < len(ordered)


def _split_slices(
    slices: Sequence[tuple[LogFile, int, np.ndarray]], tasks: int | None
) -> Iterator[tuple[CommitSlice, ...]]:
    """Yield the files of commits in runs of about equal size."""
    if not slices:
        return
    ends = np.cumsum([len(sizes) for _, _, sizes in slices])
    for run in split_by_size(np.concatenate([sizes for _, _, sizes in slices]), tasks):
        part: list[CommitSlice] = []
        for (file, start, sizes), end in zip(slices, ends.tolist(), strict=True):
            low, high = max(run.start, end - len(sizes)), min(run.stop, end)
            if low < high:
                offset = start - (end - len(sizes))
                part.append((file, low + offset, high + offset))
        yield tuple(part)
