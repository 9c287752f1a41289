"""Sorting the adds of a checkpoint in bounded memory, so that it can be skipped.

What comes before what, `checkpoint_keys` says. Two ways, and the first leads into the second:

- **As they come.** Adds of a source that lies in order, such as the checkpoint before, wait in a
  pool only until everything that is still to be read comes after them.
- **In runs.** A pool that grows too large is sorted and spilled to temporary files, and so is all
  that follows; only numbers stay in memory. Then `checkpoint_merge` gives all of them in order.
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
from lazydelta.checkpoint.add_slices import joined, sliced
from lazydelta.checkpoint.run_merge import MergedRuns
from lazydelta.checkpoint.sort_keys import Partitions, Ties, sort_numbers
from lazydelta.checkpoint.sorted_runs import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.checkpoint.sort_bounds import LowerBound

    Arrival = tuple[Columns, np.ndarray | None, LowerBound | None]
    Sorted = tuple[str, list[Columns], Ties, list[np.ndarray]]

__all__ = ["SortedAdds", "regrouped"]

_RUN_ROWS = 28_672
"""Four batches of a large checkpoint, of which some rows may be gone, are one run."""
_POOL_ROWS = 98_304
"""Twelve batches of a large checkpoint; who waits longer does not come in order."""
_BLOCK_ROWS = 1024
"""Of each run that overlaps others a block is looked at: 0.6 MB."""
_WRITERS = 2
"""One run is written while the next one is sorted."""


class SortedAdds:
    """Takes adds in any order and gives them back sorted; to be closed.

    Args:
        shape: Knows their columns, and which of these count.
    """

    def __init__(self, shape: CheckpointShape) -> None:
        self._shape = shape
        self._partitions = Partitions()
        self._pool: list[_Piece] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove temporary files."""
        if self._directory is not None:
            self._directory.cleanup()

    def in_order(self, arrivals: Iterable[Arrival], rows: int) -> Iterator[Columns]:
        """Yield all adds, each batch as soon as nothing can precede it any more; once.

        Args:
            arrivals: Columns of adds in the shape of a checkpoint, where what is missing is null;
                which of them to take, None for all (sorting copies them anyway, so it costs
                nothing to leave the others out here); and what neither these nor any to follow
                come before, None if that is unknown.
            rows: About so many adds at a time, where they were spilled.
        """
        arriving = iter(arrivals)
        for adds, live, bound in arriving:
            if bound is not None:
                yield from self._before(bound)
            self._pool.append(self._piece(adds, live))
            if sum(len(piece.rows) for piece in self._pool) >= _POOL_ROWS:
                yield from self._in_runs(arriving, rows)
                return
        if self._pool:
            yield self._sorted(self._pool, self._numbers(self._pool))

    def _piece(self, adds: Columns, live: np.ndarray | None) -> _Piece:
        count = len(adds["path"])
        rows = np.arange(count) if live is None else np.flatnonzero(live)
        codes = self._partitions.codes(self._shape.partitions_of(adds), count)
        first, second = sort_numbers(self._shape.sort_values(adds))
        return _Piece(adds, rows, codes[rows], first[rows], second[rows])

    # --- as they come

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
            yield self._sorted(ready, self._numbers(ready))

    def _numbers(self, pieces: Sequence[_Piece]) -> Ties:
        keys = zip(*(self._ranked(piece) for piece in pieces), strict=True)
        return Ties.by_numbers(*(np.concatenate(key) for key in keys))

    def _ranked(self, piece: _Piece) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._partitions.ranks()[piece.codes], piece.first, piece.second

    def _sorted(self, pieces: Sequence[_Piece], ties: Ties) -> Columns:
        """Return the rows of pieces, sorted."""
        return joined(*_parts(pieces, ties), self._shape)

    # --- in runs

    def _in_runs(self, arriving: Iterator[Arrival], rows: int) -> Iterator[Columns]:
        """Spill what waits and all that follows, then yield it."""
        self._directory = tempfile.TemporaryDirectory(prefix="lazydelta-checkpoint-")
        sorted_runs = self._sorted_runs(arriving, self._directory.name)
        spilled = list(ordered_map(self._spilled, sorted_runs, width=_WRITERS))
        release_memory()  # the threads it was held for have ended
        yield from MergedRuns(spilled, self._partitions.ranks(), self._shape).batches(rows)

    def _sorted_runs(self, arriving: Iterator[Arrival], directory: str) -> Iterator[Sorted]:
        """Yield what waits and all that follows in runs, their order, and where to write each."""
        following = (self._piece(adds, live) for adds, live, _ in arriving)
        pieces = chain(_drained(self._pool), following)
        for number, waiting in enumerate(_filled(pieces, _RUN_ROWS)):
            ties = self._numbers(waiting)
            keys = [
                np.concatenate([getattr(piece, name) for piece in waiting])[ties.order]
                for name in ("codes", "first", "second")
            ]
            parts, order = _parts(waiting, ties)
            waiting.clear()
            yield f"{directory}/{number}", parts, order, keys
            del parts  # it may be written by now, and the next run is still to come

    def _spilled(self, run: Sorted) -> tuple[list[np.ndarray], Run]:
        path, parts, order, keys = run
        return keys, Run.spilled(path, parts, order, self._shape, block_rows=_BLOCK_ROWS)


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


def _drained(pieces: list[_Piece]) -> Iterator[_Piece]:
    """Yield pieces, and let go of each."""
    while pieces:
        yield pieces.pop(0)


def _filled(pieces: Iterable[_Piece], rows: int) -> Iterator[list[_Piece]]:
    """Yield pieces together that have so many rows, or a few more; the last perhaps fewer."""
    waiting: list[_Piece] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(len(each.rows) for each in waiting) >= rows:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _parts(pieces: Iterable[_Piece], ties: Ties) -> tuple[list[Columns], Ties]:
    """Return the columns of pieces, and the order of their rows."""
    parts = [piece.narrowed() for piece in pieces]
    starts = np.cumsum([0, *(len(adds["path"]) for adds, _ in parts)])
    places = [rows + at for (_, rows), at in zip(parts, starts[:-1], strict=True)]
    return [adds for adds, _ in parts], Ties(np.concatenate(places)[ties.order], ties.same)


def regrouped(batches: Iterable[Columns], rows: int) -> Iterator[list[Columns]]:
    """Yield the same rows so many at a time, the last perhaps fewer, in pieces as they lie."""
    pieces: list[Columns] = []
    missing = rows
    for batch in batches:
        start, size = 0, len(batch["path"])
        while start < size:
            taken = min(missing, size - start)
            pieces.append(sliced(batch, start, taken))
            start, missing = start + taken, missing - taken
            if not missing:
                yield pieces
                pieces, missing = [], rows
    if pieces:
        yield pieces
