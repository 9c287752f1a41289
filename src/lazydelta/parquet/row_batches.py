"""Runs of rows of a file: each knows its position, so that they can be cut and put side by side."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

__all__ = ["LEAST_ROWS", "Rows", "rows_that_fit"]

_BATCH_BYTES = 32 << 20
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
    return min(most, max(count, 1), max(LEAST_ROWS, _BATCH_BYTES // per_row))


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
