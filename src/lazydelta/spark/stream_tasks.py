"""A batch of a stream: how far it goes, the parts it consists of, and the rows of a part.

Plans from the log alone and keeps nothing between two batches. What it holds is bounded by the
batch: of a version's files only those that the batch takes, of commits the sizes of their files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from lazydelta.changes import RequestedRange, find_range, read_commits
from lazydelta.errors import LogGapError
from lazydelta.expr import as_predicate
from lazydelta.log import LogFile
from lazydelta.snapshot import load_snapshot
from lazydelta.spark.changes import ChangesRead
from lazydelta.spark.stream_log import StreamLog
from lazydelta.spark.tasks import ZERO, SnapshotRead, Span, share_out, sizes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.spark.offsets import Offset
    from lazydelta.spark.options import SourceOptions
    from lazydelta.spark.shipped import ShippedSnapshot

__all__ = ["Budget", "StreamReads"]

_ROWS_BETWEEN_CUTS = 50_000
_ORDER = [("modificationTime", "ascending"), ("path", "ascending")]

Piece: TypeAlias = tuple[LogFile, int, int]
"""A commit, and which of its files: from the first place to before the second."""


@dataclass(frozen=True)
class ReadPart(InputPartition):
    """A part of a read that is not the stream's own: of a version, or of changes."""

    read: SnapshotRead | ChangesRead
    part: InputPartition


@dataclass(frozen=True)
class AppendedPart(InputPartition):
    """Files that commits added."""

    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class Budget:
    """What a batch may still take; None is no limit. One file always fits, so a stream goes on."""

    files: int | None = None
    bytes: int | None = None
    is_fresh: bool = True

    @property
    def is_unlimited(self) -> bool:
        """Whether anything fits."""
        return self.files is None and self.bytes is None

    def fits(self, sizes: np.ndarray) -> int:
        """Return how many of some files, from the first on, the batch may take."""
        count = len(sizes) if self.files is None else min(len(sizes), self.files)
        if self.bytes is not None:
            count = min(count, int(np.searchsorted(np.cumsum(sizes), self.bytes, side="right")))
        return max(count, 1) if self.is_fresh and len(sizes) else count

    def spend(self, sizes: np.ndarray) -> None:
        """Take files."""
        if self.files is not None:
            self.files = max(0, self.files - len(sizes))
        if self.bytes is not None:
            self.bytes = max(0, self.bytes - int(sizes.sum()))
        self.is_fresh = self.is_fresh and not len(sizes)


@dataclass(frozen=True, kw_only=True)
class StreamReads:
    """Plans and reads the batches of one stream; it can be pickled.

    Args:
        options: What was asked for.
        pinned: The version whose schema the rows have.
    """

    options: SourceOptions
    pinned: ShippedSnapshot

    @cached_property
    def log(self) -> StreamLog:
        """The commits that the stream follows."""
        return StreamLog(self.pinned.open(), self.options)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what belongs to this process."""
        return {"options": self.options, "pinned": self.pinned}

    # --- how far a batch goes

    def advance(self, start: Offset, budget: Budget, *, until: int | None = None) -> Offset:
        """Return the end of the batch that begins at a place.

        Args:
            start: Where the batch before it ended.
            budget: What the batch may take.
            until: The last version to look at; None is the newest.
        """
        place = start
        if place.snapshot:
            place = self._advance_in_snapshot(place, budget)
            if place.snapshot:
                return place
        for file in self.log.commits(place.version, until):
            sizes = self.log.judged(file).sizes[place.index :]
            count = budget.fits(sizes)
            if self.options.read_change_feed and not budget.is_fresh and count < len(sizes):
                return place  # a commit's changes stay together
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
        read = self._snapshot_read(place.version, Span(after=place.after))
        with read.scan.add_batches() as batches:
            files, is_all = _first_files(map(read.span.of, batches), budget)
        sizes = sizes_of(files)
        budget.spend(sizes)
        if is_all:
            return end
        last = files.slice(files.num_rows - 1).to_pylist()[0]
        return place.within(files.num_rows, (last["modificationTime"], last["path"]))

    # --- what lies between two places

    def plan(self, first: Offset, last: Offset) -> list[InputPartition]:
        """Return the parts of a batch."""
        parts: list[InputPartition] = []
        if first.snapshot:
            is_within = last.snapshot and last.version == first.version
            span = Span(after=first.after, last=last.after if is_within else None)
            read = self._snapshot_read(first.version, span)
            parts += [ReadPart(read, part) for part in read.plan()]
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
        found = find_range(store, config, RequestedRange(start_version=first, end_version=end))
        self.log.check_snapshot(found.end)
        read = ChangesRead.of(
            replace(found, end=self.log.snapshot),
            options_file=self.options.storage_options_file,
            columns=self.options.columns,
            where=as_predicate(self.options.where),
        )
        return [ReadPart(read, part) for part in read.plan()]

    def _appended(self, first: Offset, last: Offset, end: int) -> list[InputPartition]:
        commits = self.log.commits(first.version, end)
        if len(commits) != end - first.version + 1:
            raise LogGapError(self.pinned.address.root, (first.version + len(commits),), end)
        pieces: list[tuple[LogFile, int, np.ndarray]] = []
        for file in commits:
            sizes = self.log.judged(file).sizes
            start = first.index if file.version == first.version else 0
            stop = last.index if file.version == last.version else len(sizes)
            if start < stop:
                pieces.append((file, start, sizes[start:stop]))
        return [AppendedPart(part) for part in _shared_out(pieces, self.options.num_partitions)]

    def _snapshot_read(self, version: int, span: Span) -> SnapshotRead:
        """Return the read of a version, in the stream's schema."""
        own = self.log.snapshot
        found = load_snapshot(own.store, own.config, version=version)
        self.log.check_snapshot(found)
        return SnapshotRead(
            shipped=replace(
                self.pinned, segment=found.segment, checksum=found.checksum, hint=found.hint
            ),
            columns=self.options.columns,
            where=as_predicate(self.options.where),
            span=span,
            tasks=self.options.num_partitions,
        )

    # --- rows

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        if isinstance(part, ReadPart):
            return part.read.read(part.part)
        if not isinstance(part, AppendedPart):
            return iter(())
        read = SnapshotRead(
            shipped=self.pinned,
            columns=self.options.columns,
            where=as_predicate(self.options.where),
        )
        return read.rows(self._adds(part.pieces))

    def _adds(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        own = self.log.snapshot
        commits = read_commits(own.store, own.config, [p[0] for p in pieces], every_file=True)
        for commit, (_, start, stop) in zip(commits, pieces, strict=True):
            yield from commit.adds.slice(start, stop - start).to_batches()


def _first_files(batches: Iterable[pa.RecordBatch], budget: Budget) -> tuple[pa.Table, bool]:
    """Return the files that fit, in the order of a `Span`, and whether that is all of them.

    Keeps no more than fit and what came since the last cut, however many files there are.
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
    count = budget.fits(sizes_of(ordered))
    return ordered.slice(0, count).combine_chunks(), count < len(ordered)


def _shared_out(
    pieces: Sequence[tuple[LogFile, int, np.ndarray]], tasks: int
) -> Iterator[tuple[Piece, ...]]:
    """Yield the pieces in runs of about equal work, cut where that is needed."""
    if not pieces:
        return
    ends = np.cumsum([len(sizes) for _, _, sizes in pieces])
    for run in share_out(np.concatenate([sizes for _, _, sizes in pieces]), tasks):
        part: list[Piece] = []
        for (file, start, sizes), end in zip(pieces, ends.tolist(), strict=True):
            low, high = max(run.start, end - len(sizes)), min(run.stop, end)
            if low < high:
                offset = start - (end - len(sizes))
                part.append((file, low + offset, high + offset))
        yield tuple(part)
