"""The row-group reader interface, and the only place that continues after a fallback.

`NativeReader` is fast but optional, and it is stricter than pyarrow. Where it cannot read columns,
or fails after some rows, `PyArrowReader` reads them and the rows already returned are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from lazydelta.errors import DataFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.parquet.native_reader import NativeReader
    from lazydelta.parquet.pyarrow_reader import PyArrowReader
    from lazydelta.parquet.row_batches import RowBatch
    from lazydelta.parquet.row_selection import RowSelection

__all__ = ["FallbackReader", "RowGroupReader", "read_with_fallback"]


class RowGroupReader(Protocol):
    """Reads row groups of one file."""

    def read(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int],
        *,
        batch_rows: int,
        row_range: tuple[int, int] | None = None,
        keep: RowSelection | None = None,
        views: bool = False,
    ) -> Iterator[RowBatch] | None:
        """Return columns of adjacent row groups in batches; None if another reader has to.

        Args:
            columns: Paths of leaves, or of groups that contain them.
            row_groups: Their indices, ascending.
            batch_rows: Maximum rows of a batch; fewer where rows are large.
            row_range: Positions of the first row and of the one after the last; None reads all.
            keep: The rows to select; None selects all. A reader either drops the others, which
                makes positions meaningless, or returns them unselected.
            views: Whether strings and binaries may be decoded as views.

        Raises:
            DataFileError: The file is damaged, or not supported by the reader. Batches may have
                been returned before.
        """


class _Batch(Protocol):
    @property
    def num_rows(self) -> int: ...

    def slice(self, offset: int, /) -> Self: ...


B = TypeVar("B", bound=_Batch)


def read_with_fallback(
    batches: Iterator[B] | None,
    fallback: Callable[[], Iterator[B]],
    errors: tuple[type[Exception], ...] = (DataFileError,),
) -> Iterator[B]:
    """Yield batches; after an error, the batches of the fallback without the rows yielded before.

    Args:
        batches: Read first; None goes to the fallback at once.
        fallback: Returns all rows again, in the same order.
        errors: The errors to fall back on; others are raised.
    """
    returned = 0
    if batches is not None:
        try:
            for batch in batches:
                yield batch
                returned += batch.num_rows
        except errors:
            pass
        else:
            return
    for batch in fallback():
        if not returned:
            yield batch
        elif returned < (count := batch.num_rows):
            yield batch.slice(returned)
            returned = 0
        else:
            returned -= count


class FallbackReader:
    """Reads with the native decoder and continues with pyarrow where it fails."""

    def __init__(self, native: NativeReader, fallback: PyArrowReader) -> None:
        self._native = native
        self._fallback = fallback

    def read(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int],
        *,
        batch_rows: int,
        row_range: tuple[int, int] | None = None,
        keep: RowSelection | None = None,
        views: bool = False,
    ) -> Iterator[RowBatch]:
        """As `RowGroupReader.read`; never None."""
        decoded = self._native.read(
            columns, row_groups,
            batch_rows=batch_rows, row_range=row_range, keep=keep, views=views,
        )  # fmt: skip

        def fallback() -> Iterator[RowBatch]:
            if decoded is not None:
                self._native.refuse(columns)
            return self._fallback.read(
                columns, row_groups, batch_rows=batch_rows, row_range=row_range, keep=keep
            )

        # pyarrow accepts invalid UTF-8, which no view may contain: then the error is raised.
        errors = () if views else (DataFileError,)
        return read_with_fallback(decoded, fallback, errors)
