"""External sort of a checkpoint's adds, in bounded memory.

It streams as long as it can, then spills:

- **Streaming.** Adds of a sorted source, such as the previous checkpoint, wait in a pool only until
  everything that is still to be read sorts after them.
- **Spilling.** A pool that grows too large is sorted and spilled in runs, and so are all adds after
  it; only their sort keys stay in memory. Then the runs are merged.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Self

import numpy as np

from lazydelta._arrow import from_numpy
from lazydelta._memory import release_memory
from lazydelta._parallel import ordered_map
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.sort.sort_keys import PartitionCodes, SortOrder, sort_keys
from lazydelta.checkpoint.sort.sorted_runs import MergedRuns, Run, concat_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.checkpoint.checkpoint_schema import CheckpointSchema
    from lazydelta.checkpoint.sort.row_group_bounds import LowerBound
    from lazydelta.checkpoint.sort.sorted_runs import Columns

    AddBatch = tuple[Columns, np.ndarray | None, LowerBound | None]
    UnwrittenRun = tuple[str, list[Columns], SortOrder, list[np.ndarray]]

__all__ = ["AddSorter"]


class AddSorter:
    """Sorts adds; a context manager that owns the temporary files.

    Args:
        schema: The columns of the adds, and those to sort by.
    """

    def __init__(self, schema: CheckpointSchema) -> None:
        self._schema = schema
        self._partitions = PartitionCodes()
        self._pool: list[_Pending] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            self._directory.cleanup()

    def sort(self, batches: Iterable[AddBatch], rows: int) -> Iterator[Columns]:
        """Yield all adds, each batch as soon as no other add can precede it; once.

        Args:
            batches: Columns of adds in the checkpoint's schema; a mask of the rows to keep, None
                for all (the sort copies rows anyway, so it filters for free); and a lower bound of
                these and all later adds, None if unknown.
            rows: About how many adds a batch has where they were spilled.
        """
        source = iter(batches)
        for adds, mask, bound in source:
            if bound is not None:
                yield from self._take_before(bound)
            self._pool.append(self._pending(adds, mask))
            if sum(len(pending.rows) for pending in self._pool) >= tuning.POOL_ROWS:
                yield from self._spill_and_merge(source, rows)
                return
        if self._pool:
            yield self._sorted(self._pool)

    def _pending(self, adds: Columns, mask: np.ndarray | None) -> _Pending:
        count = len(adds["path"])
        rows = np.arange(count) if mask is None else np.flatnonzero(mask)
        codes = self._partitions.encode(self._schema.partition_arrays(adds), count)
        first, second = sort_keys(self._schema.sort_values(adds))
        return _Pending(adds, rows, codes[rows], first[rows], second[rows])

    # --- streaming

    def _take_before(self, bound: LowerBound) -> Iterator[Columns]:
        """Yield the adds of the pool that precede a bound, and keep the others."""
        code = self._partitions.code(bound.partition)
        rank = self._partitions.ranks()[code]
        ready, waiting = [], []
        for pending in self._pool:
            ranks, first, _ = self._keys(pending)
            is_before = (ranks < rank) | ((ranks == rank) & (first < bound.key))
            ready.append(pending.filter(is_before))
            waiting.append(pending.filter(~is_before))
        ready = [pending for pending in ready if len(pending.rows)]
        if ready:
            self._pool = [pending for pending in waiting if len(pending.rows)]
            yield self._sorted(ready)

    def _order(self, pendings: Sequence[_Pending]) -> SortOrder:
        keys = zip(*(self._keys(pending) for pending in pendings), strict=True)
        return SortOrder.by_keys(*(np.concatenate(key) for key in keys))

    def _keys(self, pending: _Pending) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._partitions.ranks()[pending.codes], pending.first, pending.second

    def _sorted(self, pendings: Sequence[_Pending]) -> Columns:
        return concat_sorted(*_parts(pendings, self._order(pendings)), self._schema)

    # --- spilling

    def _spill_and_merge(self, source: Iterator[AddBatch], rows: int) -> Iterator[Columns]:
        """Spill the pool and all later adds, then yield them merged."""
        self._directory = tempfile.TemporaryDirectory(prefix="lazydelta-checkpoint-")
        unwritten = self._unwritten_runs(source, self._directory.name)
        spilled = list(ordered_map(self._spill, unwritten, width=tuning.RUN_WRITERS))
        release_memory()  # the threads that it was cached for have ended
        yield from MergedRuns(spilled, self._partitions.ranks(), self._schema).batches(rows)

    def _unwritten_runs(self, source: Iterator[AddBatch], directory: str) -> Iterator[UnwrittenRun]:
        """Yield for each run its path, its adds, their order and their sort keys."""
        later = (self._pending(adds, mask) for adds, mask, _ in source)
        pendings = chain(_drain(self._pool), later)
        for number, group in enumerate(_grouped(pendings, tuning.RUN_ROWS)):
            order = self._order(group)
            keys = [
                np.concatenate([getattr(pending, name) for pending in group])[order.rows]
                for name in ("codes", "first", "second")
            ]
            parts, order = _parts(group, order)
            group.clear()
            yield f"{directory}/{number}", parts, order, keys
            del parts  # frees the adds before the next run is collected

    def _spill(self, run: UnwrittenRun) -> tuple[list[np.ndarray], Run]:
        path, parts, order, keys = run
        return keys, Run.spill(path, parts, order, self._schema, block_rows=tuning.BLOCK_ROWS)


@dataclass(slots=True)
class _Pending:
    """Adds that wait to be sorted: some rows of a batch, and their sort keys."""

    adds: Columns
    rows: np.ndarray
    codes: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def filter(self, mask: np.ndarray) -> _Pending:
        keys = (self.rows, self.codes, self.first, self.second)
        return self if mask.all() else _Pending(self.adds, *(key[mask] for key in keys))

    def compacted(self) -> tuple[Columns, np.ndarray]:
        """Return columns and the rows to keep of them; a small selection is copied first."""
        if 2 * len(self.rows) > len(self.adds["path"]):
            return self.adds, self.rows
        indices = from_numpy(self.rows)
        adds = {name: column.take(indices) for name, column in self.adds.items()}
        return adds, np.arange(len(indices))


def _drain(pendings: list[_Pending]) -> Iterator[_Pending]:
    """Yield and remove each item, so that its memory is freed after use."""
    while pendings:
        yield pendings.pop(0)


def _grouped(pendings: Iterable[_Pending], rows: int) -> Iterator[list[_Pending]]:
    """Yield groups of at least `rows` rows; the last may have fewer."""
    group: list[_Pending] = []
    for pending in pendings:
        group.append(pending)
        if sum(len(each.rows) for each in group) >= rows:
            yield group
            group = []
    if group:
        yield group


def _parts(pendings: Iterable[_Pending], order: SortOrder) -> tuple[list[Columns], SortOrder]:
    """Return the columns of all items, and the order in terms of their concatenated rows."""
    parts = [pending.compacted() for pending in pendings]
    starts = np.cumsum([0, *(len(adds["path"]) for adds, _ in parts)])
    positions = [rows + start for (_, rows), start in zip(parts, starts[:-1], strict=True)]
    rows = np.concatenate(positions)[order.rows]
    return [adds for adds, _ in parts], SortOrder(rows, order.ties)
