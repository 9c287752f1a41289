"""Runs of rows of a file: each knows its position, so that they can be cut and put side by side."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BATCH_BYTES", "LEAST_ROWS", "Rows", "SideBySide", "rows_that_fit"]

BATCH_BYTES = 32 << 20
"""How large a batch may become, by what footers say."""
LEAST_ROWS = 1024
"""In a batch, however large they are."""


def rows_that_fit(count: int, size: int, most: int) -> int:
    """Return how many rows to decode at once: large ones are taken fewer at a time.

    Args:
        count: How many there are: Arrow takes memory for a whole batch, so no more are asked for.
        size: Bytes of all of them.
        most: Rows that are wanted at once.
    """
    per_row = max(size // max(count, 1), 1)
    return min(most, max(count, 1), max(LEAST_ROWS, BATCH_BYTES // per_row))


class Rows(NamedTuple):
    """Consecutive rows of a file; `columns` is None where none were asked for."""

    start: int
    length: int
    columns: pa.RecordBatch | None

    @property
    def end(self) -> int:
        """The position behind the last one."""
        return self.start + self.length

    def part(self, start: int, end: int) -> Rows:
        """Return those of the rows that are between two positions."""
        start = max(start, self.start)
        length = max(min(end, self.end) - start, 0)
        if length == self.length:
            return self
        cut = None if self.columns is None else self.columns.slice(start - self.start, length)
        return Rows(start, length, cut)

    def beside(self, other: Rows) -> Rows:
        """Return these rows with the columns of other ones too, of which they are a part."""
        found: dict[str, pa.Array] = {}
        for rows in (self, other.part(self.start, self.end)):
            if rows.columns is not None:
                found.update(zip(rows.columns.schema.names, rows.columns.columns, strict=True))
        batch = pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
        return Rows(self.start, self.length, batch)


class SideBySide:
    """Columns of the same rows that come in different pieces."""

    def __init__(self) -> None:
        self._pieces: dict[str, deque[Rows]] = {}

    def add(self, rows: Rows) -> None:
        """Add some columns of some rows, which follow those that these columns have already."""
        assert rows.columns is not None  # noqa: S101 - columns were asked for
        for name in rows.columns.schema.names:
            one = Rows(rows.start, rows.length, rows.columns.select([name]))
            self._pieces.setdefault(name, deque()).append(one)

    @property
    def end(self) -> int:
        """The position up to which all columns have pieces."""
        return min(pieces[-1].end for pieces in self._pieces.values())

    def take(self, start: int, end: int) -> Iterator[Rows]:
        """Yield rows with all columns, each of which has pieces up to the end."""
        while start < end:
            for pieces in self._pieces.values():
                while pieces[0].end <= start:
                    pieces.popleft()
            first, *others = (pieces[0] for pieces in self._pieces.values())
            rows = first.part(start, min([end, *(piece.end for piece in others)]))
            for other in others:
                rows = rows.beside(other)
            yield rows
            start = rows.end
