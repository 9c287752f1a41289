"""Sorting the adds of a checkpoint in bounded memory, so that it can be skipped.

What comes before what, `checkpoint_keys` says. Two ways, and the first leads into the second:

- **As they come.** Adds of a source that lies in order, such as the checkpoint before, wait in a
  pool only until everything that is still to be read comes after them.
- **In runs.** A pool that grows too large is sorted and spilled to temporary files, and so is all
  that follows. Only numbers stay in memory, and say which rows come next; since a run is sorted,
  those of one run lie together, so every file is read once, from front to back.
"""

from __future__ import annotations

import bisect
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta.scan import nulls
from lazydelta.upkeep.checkpoint_keys import Partitions, Ties, plain, sort_numbers
from lazydelta.upkeep.checkpoint_runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lazydelta.upkeep.checkpoint_bounds import LowerBound
    from lazydelta.upkeep.checkpoint_keys import PlainRow
    from lazydelta.upkeep.checkpoint_shape import CheckpointShape

__all__ = ["SortedAdds", "regrouped"]

Columns = dict[str, pa.Array]

_RUN_ROWS = 28_672
"""Less than a batch of a large checkpoint has, so that each becomes a run without being copied."""
_POOL_ROWS = 98_304
"""Three batches of a large checkpoint; who waits longer does not come in order."""
_BLOCK_ROWS = 1024
"""Of each run that overlaps others a block is in memory: 0.6 MB."""


class SortedAdds:
    """Takes adds in any order and gives them back sorted; to be closed.

    Args:
        shape: Knows their columns, and which of these count.
    """

    def __init__(self, shape: CheckpointShape) -> None:
        self._shape = shape
        self._kinds = {item.name: item.type for item in shape.add}
        self._partitions = Partitions()
        self._pool: list[_Piece] = []
        self._runs: list[Run] = []
        self._spills = False
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove temporary files."""
        for run in self._runs:
            run.close()
        if self._directory is not None:
            self._directory.cleanup()

    def append(
        self, adds: Columns, live: np.ndarray | None = None, bound: LowerBound | None = None
    ) -> Iterator[Columns]:
        """Take adds, and yield those taken before which nothing can precede any more.

        Args:
            adds: Their columns, in the shape of a checkpoint; what is missing is null.
            live: Which of them to take; None is all. Sorting copies them anyway, so it costs
                nothing to leave the others out here.
            bound: What neither these adds nor any to follow come before; None if that is unknown.
        """
        if bound is not None and not self._spills:
            yield from self._before(bound)
        self._pool.append(self._piece(adds, live))
        waiting = sum(len(piece.rows) for piece in self._pool)
        if waiting >= (_RUN_ROWS if self._spills else _POOL_ROWS):
            self._spill()

    def rest(self, rows: int) -> Iterator[Columns]:
        """Yield all adds that are left, about so many at a time."""
        if not self._spills:
            yield from self._sorted(self._pool, self._numbers(self._pool))
            return
        self._spill()
        starts = np.cumsum([0, *(len(run.keys[0]) for run in self._runs)])
        plan = self._plan()
        for start, end in _windows(plan.same, rows):
            chosen = plan.order[start:end]
            run_of = np.searchsorted(starts, chosen, side="right") - 1
            counts = np.bincount(run_of, minlength=len(self._runs)).tolist()
            if end - start > 2 * rows:
                yield from self._merged(counts)
            else:
                place = np.empty(len(chosen), np.int64)
                place[np.argsort(chosen)] = np.arange(len(chosen))
                yield self._window(counts, Ties(place, plan.same[start : end - 1]))

    # --- as they come

    def _piece(self, adds: Columns, live: np.ndarray | None) -> _Piece:
        count = len(adds["path"])
        rows = np.arange(count) if live is None else np.flatnonzero(live)
        codes = self._partitions.codes(self._shape.partitions_of(adds), count)
        first, second = sort_numbers(self._shape.sort_values(adds))
        return _Piece(adds, rows, codes[rows], first[rows], second[rows])

    def _before(self, bound: LowerBound) -> Iterator[Columns]:
        """Yield the adds of the pool that come before a bound, and keep the others."""
        code = self._partitions.code(bound.partition)
        limit = self._partitions.ranks()[code]
        ready, waiting = [], []
        for piece in self._pool:
            ranks, first, _ = self._ranked(piece)
            is_before = (ranks < limit) | ((ranks == limit) & (first < bound.number))
            ready.append(piece.only(is_before))
            waiting.append(piece.only(~is_before))
        ready = [piece for piece in ready if len(piece.rows)]
        if ready:
            self._pool = [piece for piece in waiting if len(piece.rows)]
            yield from self._sorted(ready, self._numbers(ready))

    def _numbers(self, pieces: Sequence[_Piece]) -> Ties:
        keys = zip(*(self._ranked(piece) for piece in pieces), strict=True)
        empty = np.empty(0, np.int64)
        return Ties.by_numbers(*([np.concatenate(key) for key in keys] or [empty] * 3))

    def _ranked(self, piece: _Piece) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._partitions.ranks()[piece.codes], piece.first, piece.second

    def _sorted(self, pieces: Sequence[_Piece], ties: Ties) -> Iterator[Columns]:
        """Yield the rows of pieces, sorted, in one batch."""
        if not len(ties.order):
            return
        parts = [piece.narrowed() for piece in pieces]
        starts = np.cumsum([0, *(len(adds["path"]) for adds, _ in parts)])
        places = np.concatenate(
            [rows + at for (_, rows), at in zip(parts, starts[:-1], strict=True)]
        )
        yield self._joined([adds for adds, _ in parts], Ties(places[ties.order], ties.same))

    # --- in runs

    def _spill(self) -> None:
        """Sort what waits, and write it to files."""
        self._spills = True
        waiting: list[_Piece] = []
        for piece in self._pool:
            waiting.append(piece)
            if sum(len(each.rows) for each in waiting) >= _RUN_ROWS:
                self._end_run(waiting)
                waiting = []
        if waiting:
            self._end_run(waiting)
        self._pool = []

    def _end_run(self, pieces: Sequence[_Piece]) -> None:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="lazydelta-checkpoint-")
        ties = self._numbers(pieces)
        (columns,) = self._sorted(pieces, ties)
        keys = [
            np.concatenate([getattr(piece, name) for piece in pieces])[ties.order]
            for name in ("codes", "first", "second")
        ]
        path = f"{self._directory.name}/{len(self._runs)}"
        self._runs.append(Run.spilled(path, columns, keys, block_rows=_BLOCK_ROWS))

    def _plan(self) -> Ties:
        """Sort the rows of all runs by numbers, which these then let go of, one by one."""
        codes, first, second = (
            np.concatenate([run.keys.pop(0) for run in self._runs]) for _ in range(3)
        )
        return Ties.by_numbers(self._partitions.ranks()[codes], first, second)

    def _window(self, counts: Sequence[int], ties: Ties) -> Columns:
        """Return the next rows of each run, sorted."""
        pairs = zip(self._runs, counts, strict=True)
        return self._joined([part for run, count in pairs for part in run.next(count)], ties)

    def _merged(self, counts: Sequence[int]) -> Iterator[Columns]:
        """Yield the next rows of each run, more than are held at once, which no number parts.

        Of every run a block is at hand. What is not after the least of their last rows cannot be
        preceded by a row that is not at hand.
        """
        left = list(counts)
        heads: list[Columns | None] = [None] * len(left)
        while True:
            for at, run in enumerate(self._runs):
                if heads[at] is None and left[at]:
                    heads[at] = block = run.next_piece(left[at])
                    left[at] -= len(block["path"])
            present = [(at, head) for at, head in enumerate(heads) if head is not None]
            if not present:
                return
            lasts = [self._row_key(head)(len(head["path"]) - 1) for at, head in present if left[at]]
            parts = []
            for at, head in present:
                size = len(head["path"])
                cut = size if not lasts else self._not_after(head, min(lasts))
                parts += [_sliced(head, 0, cut)] if cut else []
                heads[at] = _sliced(head, cut, size - cut) if cut < size else None
            rows = sum(len(part["path"]) for part in parts)
            yield self._joined(parts, Ties(np.arange(rows), np.ones(rows - 1, np.bool_)))

    def _not_after(self, head: Columns, last: PlainRow) -> int:
        return bisect.bisect_right(range(len(head["path"])), last, key=self._row_key(head))

    def _row_key(self, adds: Columns) -> Callable[[int], PlainRow]:
        columns = self._shape.sort_values(adds)
        return lambda at: tuple(plain(column.slice(at, 1))[0] for column in columns)

    # --- both

    def _joined(self, parts: Sequence[Columns], ties: Ties) -> Columns:
        """Return rows of all parts in order; those that agree in numbers by their values."""
        if ties.same.any():
            # Of nothing else than what is compared, so that one part of it is not copied twice.
            at = [self._shape.sort_values(part) for part in parts]
            ties = ties.by_values([pa.concat_arrays(column) for column in zip(*at, strict=True)])
        start, rows = int(ties.order[0]), len(ties.order)
        lies_so = bool((np.diff(ties.order) == 1).all())
        order = from_numpy(ties.order)
        joined: Columns = {}
        for name, kind in self._kinds.items():
            if any(name in part for part in parts):
                column = _whole(parts, name, kind)
                joined[name] = column.slice(start, rows) if lies_so else column.take(order)
        return joined


@dataclass(slots=True)
class _Piece:
    """Adds that wait: some rows of a batch, and their place in the order."""

    adds: Columns
    rows: np.ndarray
    codes: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def only(self, mask: np.ndarray) -> _Piece:
        keys = (self.rows, self.codes, self.first, self.second)
        return self if mask.all() else _Piece(self.adds, *(key[mask] for key in keys))

    def narrowed(self) -> tuple[Columns, np.ndarray]:
        """Return columns and which of their rows are meant: few of many are taken out first."""
        if 2 * len(self.rows) > len(self.adds["path"]):
            return self.adds, self.rows
        at = from_numpy(self.rows)
        return {name: column.take(at) for name, column in self.adds.items()}, np.arange(len(at))


def _windows(same: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of about so many rows that never part rows which agree.

    One that is longer than two of them holds nothing but rows that agree.
    """
    breaks = np.append(np.flatnonzero(~same) + 1, len(same) + 1)
    start = 0
    while start <= len(same):
        after = int(np.searchsorted(breaks, start + rows))
        end = int(breaks[min(after, len(breaks) - 1)])
        before = int(breaks[after - 1]) if after else 0
        if end - start > 2 * rows and before > start:
            end = before
        yield start, end
        start = end


def _sliced(adds: Columns, start: int, rows: int) -> Columns:
    return {name: column.slice(start, rows) for name, column in adds.items()}


def _whole(parts: Sequence[Columns], name: str, kind: pa.DataType) -> pa.Array:
    found = [p[name] if name in p else nulls(len(p["path"]), kind) for p in parts]
    return found[0] if len(found) == 1 else pa.concat_arrays(found)


def regrouped(batches: Iterable[Columns], rows: int) -> Iterator[list[Columns]]:
    """Yield the same rows so many at a time, the last perhaps fewer, in pieces as they lie."""
    pieces: list[Columns] = []
    missing = rows
    for batch in batches:
        start, size = 0, len(batch["path"])
        while start < size:
            taken = min(missing, size - start)
            pieces.append(_sliced(batch, start, taken))
            start, missing = start + taken, missing - taken
            if not missing:
                yield pieces
                pieces, missing = [], rows
    if pieces:
        yield pieces
