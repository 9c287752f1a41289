"""Sorted runs of adds -> all of them, sorted, in bounded memory.

Numbers say which rows come next. Since every run is sorted, those of one run lie together, so each
file is read once, from front to back. Rows that no number parts are never split between two
batches; where they are too many to be held at once, runs are merged block by block, by values.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

from lazydelta.checkpoint.add_slices import joined, sliced
from lazydelta.checkpoint.sort_keys import Ties, plain
from lazydelta.checkpoint.sorted_runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.checkpoint.sort_keys import PlainRow

__all__ = ["MergedRuns"]


class MergedRuns:
    """The rows of all runs in one order.

    Args:
        spilled: The runs, not read yet, and the numbers of their rows, which are taken away.
        ranks: The place of each partition code in the order.
        shape: Knows the columns of the rows, and which of these count.
    """

    def __init__(
        self,
        spilled: Sequence[tuple[list[np.ndarray], Run]],
        ranks: np.ndarray,
        shape: CheckpointShape,
    ) -> None:
        self._runs = [run for _, run in spilled]
        self._shape = shape
        self._sizes = [len(keys[0]) for keys, _ in spilled]
        # One by one, so that no more than one of the three is there twice.
        codes, first, second = (np.concatenate([k.pop(0) for k, _ in spilled]) for _ in range(3))
        self._plan = Ties.by_numbers(ranks[codes], first, second)

    def batches(self, rows: int) -> Iterator[Columns]:
        """Yield all rows, about so many at a time; once."""
        numbers = np.arange(len(self._runs), dtype=np.min_scalar_type(len(self._runs)))
        run_of = np.repeat(numbers, self._sizes)
        following = np.cumsum([0, *self._sizes[:-1]])  # the row that each run goes on with
        for start, end in _windows(self._plan.same, rows):
            chosen = self._plan.order[start:end]
            runs = run_of[chosen]
            counts = np.bincount(runs, minlength=len(self._runs))
            if end - start > 2 * rows:
                yield from self._by_blocks(counts.tolist())
            else:
                places = chosen - (following - np.cumsum(counts) + counts)[runs]
                ties = Ties(places, self._plan.same[start : end - 1])
                yield Run.taken(self._runs, counts.tolist(), ties, self._shape)
            following += counts

    def _by_blocks(self, counts: Sequence[int]) -> Iterator[Columns]:
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
                parts += [sliced(head, 0, cut)] if cut else []
                heads[at] = sliced(head, cut, size - cut) if cut < size else None
            rows = sum(len(part["path"]) for part in parts)
            ties = Ties(np.arange(rows), np.ones(rows - 1, np.bool_))
            found = joined(parts, ties, self._shape)
            for run in self._runs:
                run.release()
            yield found

    def _not_after(self, head: Columns, last: PlainRow) -> int:
        return bisect.bisect_right(range(len(head["path"])), last, key=self._row_key(head))

    def _row_key(self, adds: Columns) -> Callable[[int], PlainRow]:
        columns = self._shape.sort_values(adds)
        return lambda at: tuple(plain(column.slice(at, 1))[0] for column in columns)


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
