"""Row batches of a data file: each has its position, so that they can be sliced and merged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask, true_mask
from lazydelta.parquet import tuning

__all__ = ["RowBatch", "batch_size"]


def batch_size(num_rows: int, num_bytes: int, batch_rows: int) -> int:
    """Return how many rows to decode at once: fewer where rows are large.

    Args:
        num_rows: Rows in total; Arrow allocates a whole batch, so no more are requested.
        num_bytes: Bytes of all of them.
        batch_rows: Maximum rows.
    """
    per_row = max(num_bytes // max(num_rows, 1), 1)
    return min(
        batch_rows, max(num_rows, 1), max(tuning.MIN_BATCH_ROWS, tuning.BATCH_BYTES // per_row)
    )


class RowBatch(NamedTuple):
    """Consecutive rows of a file, of which some or all are selected."""

    start: int
    """Position of the first row in the file. Undefined if a reader has dropped rows before."""
    length: int
    columns: pa.RecordBatch | None
    """None if no columns were requested."""
    selected: pa.BooleanArray | None = None
    """Mask over the rows; None selects all. A null is not selected."""

    @property
    def end(self) -> int:
        """The position after the last row."""
        return self.start + self.length

    @property
    def num_rows(self) -> int:
        """The number of selected rows."""
        return self.length if self.selected is None else self.selected.true_count

    def select(self, mask: pa.BooleanArray | None) -> RowBatch:
        """Return the batch with another selection."""
        return self._replace(selected=mask)

    def slice(self, offset: int) -> RowBatch:
        """Return the batch without its first `offset` selected rows."""
        if self.selected is None:
            return self.part(self.start + offset, self.end)
        mask = true_mask(self.selected).copy()
        mask[np.flatnonzero(mask)[:offset]] = False
        return self.select(from_mask(mask))

    def part(self, start: int, end: int) -> RowBatch:
        """Return the rows between two positions."""
        start = max(start, self.start)
        length = max(min(end, self.end) - start, 0)
        if length == self.length:
            return self
        position, columns, mask = start - self.start, self.columns, self.selected
        return RowBatch(
            start, length,
            None if columns is None else columns.slice(position, length),
            None if mask is None else mask.slice(position, length),
        )  # fmt: skip

    def merge(self, other: RowBatch) -> RowBatch:
        """Return these rows with the columns of a batch that contains them too."""
        columns: dict[str, pa.Array] = {}
        for rows in (self, other.part(self.start, self.end)):
            if rows.columns is not None:
                columns.update(zip(rows.columns.schema.names, rows.columns.columns, strict=True))
        merged = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return RowBatch(self.start, self.length, merged, self.selected)
