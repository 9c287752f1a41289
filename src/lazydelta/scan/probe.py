"""The predicate's columns first, the others only as far as a row matches.

It pays where row groups hold few matches, or none, and the predicate's columns are the smaller
part. A decoder cannot leap over rows, but it can stop: after the last match nothing is decoded,
and in a row group without one only the predicate's columns. Remote stores are asked twice for a
row group with a match, so it is given up where most of them have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import certain
from lazydelta.files import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.files import DataFile
    from lazydelta.scan.rows import FileFit

    Wanted = Callable[[Rows], pa.BooleanArray]
    Chosen = tuple[Rows, pa.BooleanArray]

__all__ = ["Probe"]

_TRIES = 8
"""Row groups to try before the share of those without a match is looked at."""
_LEAST_SHARE = 0.5
"""Of the row groups tried, how many must be without a match for more to be tried."""
_MOST_BYTES = 0.5
"""The predicate's part of all bytes to read, beyond which nothing is tried."""


class Probe:
    """Reads what may match. Shared by threads: a count that is off does no harm."""

    def __init__(self) -> None:
        self._tried = 0
        self._empty = 0

    def is_worth_it(self, file: DataFile, fit: FileFit, groups: Sequence[int]) -> bool:
        """Whether to look for matches first in these row groups of a file."""
        if not groups or not fit.filter_columns or not fit.other_columns:
            return False
        if self._tried >= _TRIES and self._empty < self._tried * _LEAST_SHARE:
            return False
        some = groups[:1]
        part = file.column_bytes(fit.filter_columns, some)
        return part <= _MOST_BYTES * file.column_bytes(fit.columns, some)

    def rows(
        self,
        file: DataFile,
        fit: FileFit,
        groups: Sequence[int],
        wanted: Wanted,
        *,
        batch_rows: int,
    ) -> Iterator[Chosen]:
        """Yield rows with all their columns, and which of them are wanted.

        Runs of rows of which none is wanted are left out.

        Args:
            file: What to read.
            fit: Which columns the predicate needs, and which others are shown.
            groups: Ascending numbers of row groups.
            wanted: Tells which rows are wanted, given the predicate's columns.
            batch_rows: Most rows at a time.
        """
        for group in groups:
            others = _Others(file, fit.other_columns, group, batch_rows)
            is_empty = True
            for rows in file.rows(fit.filter_columns, [group], batch_rows=batch_rows):
                keep = wanted(rows)
                if keep.true_count:
                    is_empty = False
                    yield from others.beside(rows, keep)
            self._tried += 1
            self._empty += is_empty


class _Others:
    """The other columns of one row group, decoded as far as they are asked for."""

    def __init__(self, file: DataFile, columns: Sequence[str], group: int, batch_rows: int) -> None:
        self._file = file
        self._columns = columns
        self._group = group
        self._batch_rows = batch_rows
        self._batches: Iterator[Rows] | None = None
        self._held = Rows(0, 0, None)

    def beside(self, rows: Rows, keep: pa.BooleanArray) -> Iterator[Chosen]:
        """Yield rows up to the last one that is wanted, in the pieces that the others come in."""
        used = int(np.flatnonzero(certain(keep))[-1]) + 1
        if self._batches is None:
            is_all = rows.length == self._file.metadata.row_group(self._group).num_rows
            at_once = used if is_all else self._batch_rows
            self._batches = self._file.rows(self._columns, [self._group], batch_rows=at_once)
            self._held = next(self._batches)
        position, end = rows.start, rows.start + used
        while position < end:
            while self._held.start + self._held.length <= position:
                self._held = next(self._batches)
            length = min(end, self._held.start + self._held.length) - position
            columns = {**_cut(rows, position, length), **_cut(self._held, position, length)}
            batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
            yield Rows(position, length, batch), keep.slice(position - rows.start, length)
            position += length


def _cut(rows: Rows, position: int, length: int) -> dict[str, pa.Array]:
    """Return the columns of some of the rows."""
    assert rows.columns is not None  # noqa: S101 - columns were asked for
    cut = rows.columns.slice(position - rows.start, length)
    return dict(zip(cut.schema.names, cut.columns, strict=True))
