"""Sorted runs of adds: spilled to temporary files, then merged in bounded memory.

Adds are `Columns`: field names and columns; a field that is null in every row is omitted. Sort keys
decide which rows come next. Each run is sorted, so its file is read once, sequentially. A batch
never splits rows whose keys tie; where these are too many for memory, the runs are merged block by
block, by value.
"""

from __future__ import annotations

import bisect
import mmap
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from lazydelta._arrow import from_numpy
from lazydelta.checkpoint.sort.sort_keys import SortOrder, comparable_values
from lazydelta.scan.plan import nulls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lazydelta.checkpoint.checkpoint_schema import CheckpointSchema
    from lazydelta.checkpoint.sort.sort_keys import ComparableRow

__all__ = ["Columns", "MergedRuns", "Run", "concat_sorted", "rechunk"]

Columns = dict[str, pa.Array]


def concat_sorted(parts: Sequence[Columns], order: SortOrder, schema: CheckpointSchema) -> Columns:
    """Return the rows of all parts in sort order; values break its ties."""
    rows = _without_ties(parts, order, schema)
    is_contiguous = bool((np.diff(rows) == 1).all())
    indices = from_numpy(rows)
    result: Columns = {}
    for item in schema.add:
        if any(item.name in part for part in parts):
            column = _concat_field(parts, item)
            result[item.name] = (
                column.slice(int(rows[0]), len(rows)) if is_contiguous else column.take(indices)
            )
    return result


def _without_ties(
    parts: Sequence[Columns], order: SortOrder, schema: CheckpointSchema
) -> np.ndarray:
    """Return the sorted rows as 32-bit integers; values break the ties."""
    if order.ties.any():
        # Only the compared columns are concatenated here, so the others are copied once.
        values = [schema.sort_values(part) for part in parts]
        columns = [pa.concat_arrays(column) for column in zip(*values, strict=True)]
        order = order.break_ties_by_values(columns)
    return order.rows.astype(np.int32, copy=False)


def _concat_field(parts: Sequence[Columns], item: pa.Field) -> pa.Array:
    """Return a field of all parts, concatenated; null where a part omits it."""
    columns = [p[item.name] if item.name in p else nulls(len(p["path"]), item.type) for p in parts]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _slice(adds: Columns, start: int, rows: int) -> Columns:
    return {name: column.slice(start, rows) for name, column in adds.items()}


def rechunk(batches: Iterable[Columns], rows: int) -> Iterator[list[Columns]]:
    """Yield the same rows in chunks of `rows`, the last maybe smaller, as zero-copy slices."""
    chunk: list[Columns] = []
    missing = rows
    for batch in batches:
        start, size = 0, len(batch["path"])
        while start < size:
            count = min(missing, size - start)
            chunk.append(_slice(batch, start, count))
            start, missing = start + count, missing - count
            if not missing:
                yield chunk
                chunk, missing = [], rows
    if chunk:
        yield chunk


@dataclass(slots=True)
class Run:
    """Sorted adds in a memory-mapped file. Rows that were read stay resident until `release`."""

    _mapped: mmap.mmap
    _schema: pa.Schema
    _blocks: list[tuple[int, int]]
    """Start and end of each unread block, the next one last."""
    _columns: Columns = field(default_factory=dict)
    _position: int = 0

    @classmethod
    def spill(
        cls, path: str, parts: Sequence[Columns], order: SortOrder, schema: CheckpointSchema,
        *, block_rows: int,
    ) -> Self:  # fmt: skip
        """Write adds to a file in sort order, in blocks of `block_rows`, and map it."""
        columns = concat_sorted(parts, order, schema)
        run_schema = pa.schema([(name, column.type) for name, column in columns.items()])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=run_schema)
        # Not compressed: that would take longer than the rest of the sort.
        sizes = []
        with pa.OSFile(path, "w") as sink:
            for start in range(0, batch.num_rows, block_rows):
                block = batch.slice(start, block_rows).serialize()
                sink.write(block)
                sizes.append(block.size)
        with Path(path).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        blocks = list(pairwise(accumulate(sizes, initial=0)))
        return cls(mapped, run_schema, blocks[::-1])

    @classmethod
    def take(
        cls, runs: Sequence[Self], counts: Sequence[int], order: SortOrder, schema: CheckpointSchema
    ) -> Columns:
        """Return the next rows of several runs in sort order: `counts` rows of each."""
        pairs = zip(runs, counts, strict=True)
        parts = [part for run, count in pairs for part in run._next_rows(count)]  # noqa: SLF001
        result = concat_sorted(parts, order, schema)
        for run in runs:
            run.release()
        return result

    def _next_rows(self, rows: int) -> Iterator[Columns]:
        """Yield the next rows, one slice for each block."""
        while rows:
            part = self.next_slice(rows)
            rows -= len(part["path"])
            yield part

    def next_slice(self, max_rows: int) -> Columns:
        """Return the next rows of one block, at most `max_rows`."""
        if not self._columns:
            start, end = self._blocks.pop()
            block = pa.py_buffer(self._mapped).slice(start, end - start)
            batch = pa.ipc.read_record_batch(block, self._schema)
            self._columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            self._position = 0
        remaining = len(self._columns["path"]) - self._position
        count = min(max_rows, remaining)
        part = _slice(self._columns, self._position, count)
        self._position += count
        if count == remaining:
            self._columns = {}
        return part

    def release(self) -> None:
        """Return mapped pages to the system; pages that are still referenced are read again."""
        self._mapped.madvise(mmap.MADV_DONTNEED)


class MergedRuns:
    """The rows of all runs in one sort order.

    Args:
        spilled: The keys of each run, which are consumed, and the unread run.
        ranks: The rank of each partition code.
        schema: The columns of the rows, and those to sort by.
    """

    def __init__(
        self,
        spilled: Sequence[tuple[list[np.ndarray], Run]],
        ranks: np.ndarray,
        schema: CheckpointSchema,
    ) -> None:
        self._runs = [run for _, run in spilled]
        self._schema = schema
        self._sizes = [len(keys[0]) for keys, _ in spilled]
        # One by one, so that at most one of the three keys is in memory twice.
        codes, first, second = (np.concatenate([k.pop(0) for k, _ in spilled]) for _ in range(3))
        self._order = SortOrder.by_keys(ranks[codes], first, second)

    def batches(self, rows: int) -> Iterator[Columns]:
        """Yield all rows, about `rows` at a time; once."""
        run_numbers = np.arange(len(self._runs), dtype=np.min_scalar_type(len(self._runs)))
        run_of_row = np.repeat(run_numbers, self._sizes)
        next_rows = np.cumsum([0, *self._sizes[:-1]])  # the first unread row of each run
        for start, end in _windows(self._order.ties, rows):
            window = self._order.rows[start:end]
            runs = run_of_row[window]
            counts = np.bincount(runs, minlength=len(self._runs))
            if end - start > 2 * rows:
                yield from self._merge_blocks(counts.tolist())
            else:
                positions = window - (next_rows - np.cumsum(counts) + counts)[runs]
                order = SortOrder(positions, self._order.ties[start : end - 1])
                yield Run.take(self._runs, counts.tolist(), order, self._schema)
            next_rows += counts

    def _merge_blocks(self, counts: Sequence[int]) -> Iterator[Columns]:
        """Yield the next rows of each run, whose keys all tie and which exceed the memory limit.

        A block of each run is in memory. Rows up to the least of the blocks' last rows can be
        yielded: no unread row precedes them.
        """
        unread = list(counts)
        heads: list[Columns | None] = [None] * len(unread)
        while True:
            for number, run in enumerate(self._runs):
                if heads[number] is None and unread[number]:
                    heads[number] = block = run.next_slice(unread[number])
                    unread[number] -= len(block["path"])
            present = [(number, head) for number, head in enumerate(heads) if head is not None]
            if not present:
                return
            last_rows = [
                self._row_key(head)(len(head["path"]) - 1)
                for number, head in present
                if unread[number]
            ]
            parts = []
            for number, head in present:
                size = len(head["path"])
                cut = self._count_up_to(head, min(last_rows)) if last_rows else size
                parts += [_slice(head, 0, cut)] if cut else []
                heads[number] = _slice(head, cut, size - cut) if cut < size else None
            rows = sum(len(part["path"]) for part in parts)
            all_tied = SortOrder(np.arange(rows), np.ones(rows - 1, np.bool_))
            merged = concat_sorted(parts, all_tied, self._schema)
            for run in self._runs:
                run.release()
            yield merged

    def _count_up_to(self, head: Columns, last_row: ComparableRow) -> int:
        return bisect.bisect_right(range(len(head["path"])), last_row, key=self._row_key(head))

    def _row_key(self, adds: Columns) -> Callable[[int], ComparableRow]:
        columns = self._schema.sort_values(adds)
        return lambda row: tuple(comparable_values(column.slice(row, 1))[0] for column in columns)


def _windows(ties: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of about `rows` rows that never split tied rows.

    A range of more than `2 * rows` holds tied rows only.
    """
    breaks = np.append(np.flatnonzero(~ties) + 1, len(ties) + 1)
    start = 0
    while start <= len(ties):
        after = int(np.searchsorted(breaks, start + rows))
        end = int(breaks[min(after, len(breaks) - 1)])
        before = int(breaks[after - 1]) if after else 0
        if end - start > 2 * rows and before > start:
            end = before
        yield start, end
        start = end
