"""Batches of rows with the position after each, for reads that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lazydelta._stream import Stream
from lazydelta.errors import ResumeTokenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = ["PlacedRows", "placed_rows"]


class PlacedRows(NamedTuple):
    """Rows, and the position after them."""

    rows: pa.RecordBatch
    position: Any

    @property
    def nbytes(self) -> int:
        """The size of the rows."""
        return int(self.rows.nbytes)


def placed_rows(
    batches: Iterator[PlacedRows], *, skip: int, limit: int | None, table: str
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Yield rows and positions, without the first rows, up to a limit.

    Args:
        batches: The rows.
        skip: The number of first rows that were delivered before.
        limit: The maximum number of rows after them.
        table: The address of the table, for errors.

    Raises:
        ResumeTokenError: There are fewer rows than were delivered before.
    """
    with Stream(batches) as stream:
        while limit is None or limit > 0:
            placed = next(stream, None)
            if placed is None:
                break
            batch, skip = placed.rows.slice(skip), max(0, skip - placed.rows.num_rows)
            batch = batch if limit is None else batch.slice(0, limit)
            limit = None if limit is None else limit - batch.num_rows
            if batch.num_rows:
                yield batch, placed.position
    if skip and limit != 0:
        raise ResumeTokenError(table, "its position is not in the data files, which were changed")
