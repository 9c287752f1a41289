"""The predicate's columns first, the others only where a row matches.

It pays where row groups hold few matches, or none, and the predicate's columns are the smaller
part. Of the rows that may match by what is known of their pages, those columns are decoded; of the
others what lies between the first and the last match, and what comes before only where it is
little (`DataFile.rows_between`). Remote stores are asked twice for a row group with a match, so it
is given up where most of them have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazydelta._arrow import true_mask
from lazydelta.parquet import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.parquet import DataFile
    from lazydelta.scan.read.row_projection import FileProjection

    Wanted = Callable[[Rows], pa.BooleanArray]
    Chosen = tuple[Rows, pa.BooleanArray]
    Span = tuple[int, int]
    """Some rows of a file: the position of the first, and the one behind the last."""

__all__ = ["LateMaterialization"]

_TRIES = 8
"""Row groups to try before the share of those where it paid is looked at."""
_LEAST_SHARE = 0.5
"""Of the row groups tried, in how many it must have paid for more to be tried."""
_MOST_DECODED = 0.5
"""The part of a row group from its first to its last match, up to which it has paid."""
_MOST_BYTES = 0.5
"""The predicate's part of all bytes to read, beyond which nothing is tried."""


class LateMaterialization:
    """Reads what may match. Shared by threads: a count that is off does no harm."""

    def __init__(self) -> None:
        self._tried = 0
        self._paid = 0

    def is_worth_it(self, file: DataFile, fit: FileProjection, groups: Sequence[int]) -> bool:
        """Whether to look for matches first in these row groups of a file."""
        if not groups or not fit.filter_columns or not fit.other_columns:
            return False
        if self._tried >= _TRIES and self._paid < self._tried * _LEAST_SHARE:
            return False
        some = groups[:1]
        part = file.column_bytes(fit.filter_columns, some)
        return part <= _MOST_BYTES * file.column_bytes(fit.columns, some)

    def rows(
        self,
        file: DataFile,
        fit: FileProjection,
        parts: Iterable[tuple[int, Sequence[Span]]],
        wanted: Wanted,
        *,
        batch_rows: int,
    ) -> Iterator[Chosen]:
        """Yield rows with all their columns, and which of them are wanted.

        Runs of rows of which none is wanted are left out.

        Args:
            file: What to read.
            fit: Which columns the predicate needs, and which others are shown.
            parts: Row groups in ascending order, and which of their rows may match.
            wanted: Tells which rows are wanted, given the predicate's columns.
            batch_rows: Most rows at a time.
        """
        for group, spans in parts:
            others = _Others(file, fit.other_columns, group, batch_rows)
            last = spans[-1][1] if spans else 0
            for rows in file.rows_within(fit.filter_columns, group, spans, batch_rows=batch_rows):
                keep = wanted(rows)
                if keep.true_count:
                    yield from others.beside(rows, keep, last)
            self._tried += 1
            num_rows = file.metadata.row_group(group).num_rows
            self._paid += others.decoded <= _MOST_DECODED * num_rows


class _Others:
    """The other columns of a row group, decoded as far as they are asked for."""

    def __init__(self, file: DataFile, columns: Sequence[str], group: int, batch_rows: int) -> None:
        self._file = file
        self._columns = columns
        self._group = group
        self._batch_rows = batch_rows
        self._batches: Iterator[Rows] = iter(())
        self._held = Rows(file.first_row(group), 0, None)
        self._is_started = False
        self.decoded = 0
        """How many rows were."""

    def beside(self, rows: Rows, keep: pa.BooleanArray, last: int) -> Iterator[Chosen]:
        """Yield rows from the first to the last one that is wanted, as the others come.

        Args:
            rows: The predicate's columns.
            keep: Which rows are wanted; one at least.
            last: The position behind the last row that may be asked for.
        """
        matches = np.flatnonzero(true_mask(keep))
        position, end = rows.start + int(matches[0]), rows.start + int(matches[-1]) + 1
        leaps = self._file.leaps(self._columns, self._group, position - self._held.end)
        if leaps or not self._is_started:
            until = end if rows.end == last else last
            self._batches = self._file.rows_between(
                self._columns, self._group, position, until, batch_rows=self._batch_rows
            )
            self.decoded += 0 if leaps else position - self._held.end
            self._is_started = True
        while position < end:
            while self._held.end <= position:
                self._held = next(self._batches)
                self.decoded += self._held.length
            found = rows.part(position, min(end, self._held.end)).beside(self._held)
            yield found, keep.slice(found.start - rows.start, found.length)
            position = found.end
