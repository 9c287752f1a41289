"""Sort rows by their position on a curve in bounded memory, with temporary files.

Rows are split into buckets of adjacent curve segments, which spill to disk; then one bucket after
the other is sorted in memory. A bucket that is too large, because many rows have similar values, is
split again by ranges of its own. Rows that no range separates stay in the order in which they come.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.range_ids import CurveRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CurveSort", "sampled"]

_KEY = "__curve_key"


def sampled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return evenly spaced rows of a batch."""
    step = -(-batch.num_rows // tuning.SAMPLE_ROWS)
    if step <= 1:
        return batch
    return batch.take(from_numpy(np.arange(0, batch.num_rows, step)))


@dataclass(frozen=True, slots=True)
class CurveSort:
    """Sorts rows by a curve."""

    ranges: CurveRanges
    buckets: np.ndarray
    """First curve key of each bucket but the first."""
    bucket_bytes: int
    """Bytes of rows that are sorted in memory."""
    depth: int = 0

    @classmethod
    def of(
        cls,
        ranges: CurveRanges,
        sample: Iterable[pa.RecordBatch],
        *,
        num_bytes: int,
        bucket_bytes: int,
    ) -> CurveSort:
        """Return the sort of rows of which there is a sample.

        Args:
            ranges: The ranges of the sample.
            sample: Rows with the clustering columns.
            num_bytes: About how many bytes the rows have.
            bucket_bytes: Bytes of rows that may be sorted in memory.
        """
        keys = [ranges.keys(batch) for batch in sample]
        ordered = np.sort(np.concatenate([np.zeros(0, np.uint64), *keys]))
        count = min(max(-(-num_bytes // bucket_bytes), 1), tuning.MAX_BUCKETS)
        if not len(ordered):
            return cls(ranges, ordered, bucket_bytes)
        at, times = np.unique(
            ordered[np.arange(1, count) * len(ordered) // count], return_counts=True
        )
        # A key that fills several buckets gets one of its own, so that it can be split again.
        after = at[times > 1] + np.uint64(1)
        return cls(ranges, np.unique(np.concatenate([at, after])), bucket_bytes)

    def sorted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in the order of the curve."""
        held: list[pa.RecordBatch] = []
        size = 0
        source = iter(batches)
        for batch in source:
            held.append(self._with_keys(batch))
            size += batch.nbytes
            if size > self.bucket_bytes:
                break
        else:
            yield from _in_order(held)
            return
        with tempfile.TemporaryDirectory(prefix="lazydelta-cluster-") as directory:
            yield from self._spilled(Path(directory), held, source)

    def scattered(
        self, batches: Iterable[pa.RecordBatch], buffer_bytes: int
    ) -> Iterator[list[tuple[int, pa.RecordBatch]]]:
        """Yield the rows of each bucket, with their keys, for every so many bytes of rows.

        `part` and `sorted` take them up in another process.
        """
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(self._with_keys(batch))
            size += batch.nbytes
            if size >= buffer_bytes:
                yield list(self._parts(held))
                size = 0
        if held:
            yield list(self._parts(held))

    def _parts(self, held: list[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        rows = pa.concat_batches(held) if len(held) > 1 else held[0]
        held.clear()
        keys = to_numpy(rows.column(_KEY))
        order = np.argsort(keys, kind="stable")
        rows = rows.take(from_numpy(order))
        ends = np.searchsorted(keys[order], self.buckets, "left")
        borders = [0, *ends.tolist(), rows.num_rows]
        for bucket, (start, end) in enumerate(pairwise(borders)):
            if end > start:
                yield bucket, rows.slice(start, end - start)

    def part(self, finer: CurveSort, bucket: int) -> CurveSort:
        """Return the sort of the rows of one bucket, by the buckets of a finer sort in it."""
        low = self.buckets[bucket - 1] if bucket else np.uint64(0)
        inside = finer.buckets > low
        if bucket < len(self.buckets):
            inside &= finer.buckets < self.buckets[bucket]
        return replace(finer, buckets=finer.buckets[inside])

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if _KEY in batch.schema.names:
            return batch
        keys = pa.Array.from_buffers(
            pa.uint64(), batch.num_rows, [None, pa.py_buffer(self.ranges.keys(batch))]
        )
        return batch.append_column(_KEY, keys)

    def _spilled(
        self, directory: Path, held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        sizes = [0] * (len(self.buckets) + 1)
        with ExitStack() as stack:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            writers = [
                stack.enter_context(
                    pa.ipc.new_stream(str(directory / str(at)), held[0].schema, options=options)
                )
                for at in range(len(sizes))
            ]
            while held:
                self._split(held.pop(0), writers, sizes)
            for batch in rest:
                self._split(self._with_keys(batch), writers, sizes)
        for at, size in enumerate(sizes):
            path = directory / str(at)
            if size <= self.bucket_bytes * tuning.BUCKET_SLACK:
                yield from _in_order(list(_read(path)))
            else:
                yield from self._split_again(path, size)
            path.unlink()

    def _split(
        self, batch: pa.RecordBatch, writers: list[pa.ipc.RecordBatchStreamWriter], sizes: list[int]
    ) -> None:
        """Append the rows of a batch to their buckets."""
        buckets = np.searchsorted(self.buckets, to_numpy(batch.column(_KEY)), "right")
        order = np.argsort(buckets.astype(np.uint16), kind="stable")
        rows = batch.take(from_numpy(order))
        ends = np.cumsum(np.bincount(buckets, minlength=len(sizes))).tolist()
        start = 0
        for at, end in enumerate(ends):
            if end > start:
                part = rows.slice(start, end - start)
                writers[at].write_batch(part)
                sizes[at] += part.nbytes
            start = end

    def _split_again(self, path: Path, size: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a bucket that is too large, in the order of a curve of its own."""
        rows = (batch.drop_columns(_KEY) for batch in _read(path))
        if self.depth >= tuning.MAX_SPLITS:
            yield from rows
            return
        sample = [sampled(batch) for batch in _read(path)]
        finer = CurveRanges.of(sample, self.ranges.paths, self.ranges.curve)
        again = CurveSort.of(finer, sample, num_bytes=size, bucket_bytes=self.bucket_bytes)
        if not len(again.buckets):
            yield from rows
            return
        yield from replace(again, depth=self.depth + 1).sorted(rows)


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        yield from reader


def _in_order(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches with keys, sorted; rows of one key keep their order."""
    if not batches:
        return
    rows = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
    batches.clear()
    order = np.argsort(to_numpy(rows.column(_KEY)), kind="stable")
    rows = rows.drop_columns(_KEY)
    for start in range(0, len(order), tuning.SORTED_ROWS):
        yield rows.take(from_numpy(order[start : start + tuning.SORTED_ROWS]))
