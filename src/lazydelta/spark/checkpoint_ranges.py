"""The rows of a checkpoint cut into ranges of their order, many rows at a time.

Spark takes its time for every field of every row that it moves, and an action has twenty. So what
moves is no row but a chunk: those rows of a batch that belong to one range, as an Arrow stream.
Where ranges end is decided from a sample. Knows nothing of Spark, nor of what a row means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, integers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["CHUNKS", "Ranges", "sample_of", "whole_ranges"]

CHUNKS = pa.schema([("range", pa.int32()), ("rows", pa.binary())])
"""A chunk: the number of its range, and its rows as an Arrow stream."""
_CUT_TOGETHER = 65_536
_SAMPLED = 2000
"""Rows of a sample; those of all tasks together come to the driver."""
_FIRST_STRIDE = 64


def sample_of(batches: Iterable[pa.RecordBatch], order: Sequence[str]) -> pa.Table | None:
    """Return what a few rows are sorted by: every so manieth, and never very many."""
    stride, found, seen = _FIRST_STRIDE, None, 0
    for batch in batches:
        first = -seen % stride
        seen += batch.num_rows
        rows = from_numpy(np.arange(first, batch.num_rows, stride))
        some = pa.Table.from_batches([batch.select(order).take(rows)])
        found = some if found is None else pa.concat_tables([found, some])
        while found.num_rows > _SAMPLED:
            found = found.take(from_numpy(np.arange(0, found.num_rows, 2)))
            stride *= 2
    return None if found is None or not found.num_rows else found.combine_chunks()


@dataclass(frozen=True, slots=True)
class Ranges:
    """Where ranges end: a row is in the range of the first end that it comes before."""

    ends: pa.Table

    @classmethod
    def of(cls, sample: pa.Table, count: int) -> Ranges:
        """Cut what a sample stands for into so many ranges of about as many rows each."""
        ordered = _in_order(sample, sample.schema.names)
        at = np.arange(1, count, dtype=np.int64) * ordered.num_rows // count
        return cls(ordered.take(from_numpy(np.unique(at))))

    @property
    def count(self) -> int:
        """How many there are."""
        return self.ends.num_rows + 1

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as chunks, many rows to a chunk."""
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting += [batch] if batch.num_rows else []
            if sum(part.num_rows for part in waiting) >= _CUT_TOGETHER:
                yield self._cut(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            yield self._cut(pa.Table.from_batches(waiting))

    def _cut(self, rows: pa.Table) -> pa.RecordBatch:
        order, ends = self.ends.schema.names, self.ends.num_rows
        places = _places(pa.concat_tables([self.ends, rows.select(order)]), order)
        is_end = places < ends
        rows = rows.take(from_numpy(places[~is_end] - ends))
        starts = [0, *(np.flatnonzero(is_end) - np.arange(ends)).tolist(), rows.num_rows]
        numbers = [number for number in range(self.count) if starts[number] < starts[number + 1]]
        chunks = [_stream(rows.slice(starts[n], starts[n + 1] - starts[n])) for n in numbers]
        return pa.RecordBatch.from_arrays(
            [pa.array(numbers, pa.int32()), pa.array(chunks, pa.binary())], schema=CHUNKS
        )


def whole_ranges(
    chunks: Iterable[pa.RecordBatch], order: Sequence[str]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number of each range, and its rows in their order.

    Args:
        chunks: All of some ranges, the chunks of a range together.
        order: What rows are sorted by.
    """
    of, waiting = -1, list[pa.Table]()
    for batch in chunks:
        for number, rows in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            if number != of and waiting:
                yield of, _in_order(pa.concat_tables(waiting), order)
                waiting = []
            of = number
            waiting.append(pa.ipc.open_stream(rows.as_buffer()).read_all())
    if waiting:
        yield of, _in_order(pa.concat_tables(waiting), order)


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def _in_order(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Return rows in their order, nulls before all values."""
    return rows.take(from_numpy(_places(rows, order)))


def _places(rows: pa.Table, order: Sequence[str]) -> np.ndarray:
    keys: dict[str, pa.ChunkedArray] = {}
    for name in order:
        column = rows.column(name)
        if column.null_count:  # pyarrow would have nulls last, and no two versions are told alike
            keys[f"{name} is there"] = column.is_valid()
        keys[name] = column
    found = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return integers(found).astype(np.int64)
