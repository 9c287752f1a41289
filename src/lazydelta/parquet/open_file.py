"""An open Parquet file: its bytes, its footer and its limits. Shared by the readers of a file."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.errors import DataFileError, StoreError
from lazydelta.parquet.decode_limits import DecodedSizeError, limited_batch_rows
from lazydelta.parquet.footer.file_footer import read_footer
from lazydelta.parquet.footer.leaf_index import LeafColumns
from lazydelta.parquet.pages.page_headers import BadPageError
from lazydelta.parquet.row_batches import batch_size
from lazydelta.store import is_local, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    from lazydelta.store import Store

__all__ = ["OpenFile"]


class OpenFile:
    """An open file, footer parsed.

    Args:
        store: The store of the file.
        path: Its path in the store.
        size: Its size in the log; saves a request.
        max_decoded_bytes: Maximum bytes that a column of a row group may decode to in one piece,
            unless it is large in the file as well.

    Raises:
        ObjectNotFoundError: It does not exist.
        DataFileError: It is not a Parquet file, or damaged.
    """

    def __init__(
        self, store: Store, path: str, size: int | None, *, max_decoded_bytes: int
    ) -> None:
        self.path = path
        self.table = store.root
        self.is_remote = not is_local(store)
        self.local_path = local_path(store, path)
        self.max_decoded_bytes = max_decoded_bytes
        with self.errors():
            self.input: pa.NativeFile = store.open_input(path, size=size)
            try:
                self.footer = read_footer(self.input)
                # Reads all names: those that are not UTF-8 fail here, with the file's path.
                self.leaves = LeafColumns(self.footer.metadata)
            except BaseException:
                self.input.close()
                raise
        self.metadata: pq.FileMetaData = self.footer.metadata
        self.schema: pa.Schema = self.footer.schema
        self._starts: list[int] | None = None

    @property
    def row_group_starts(self) -> list[int]:
        """Positions of the first rows of the row groups, and the number of rows of the file."""
        if self._starts is None:
            groups = range(self.metadata.num_row_groups)
            counts = [self.metadata.row_group(index).num_rows for index in groups]
            starts = list(accumulate(counts, initial=0))
            if starts[-1] != self.metadata.num_rows or min(counts, default=0) < 0:
                raise self.error("the row counts of its footer contradict each other")
            self._starts = starts
        return self._starts

    def positions(self, row_groups: Sequence[int]) -> tuple[int, int]:
        """Return the positions of the first row of adjacent row groups, and after their last."""
        starts = self.row_group_starts
        return starts[row_groups[0]], starts[row_groups[-1] + 1]

    def batch_size(self, row_groups: Sequence[int], batch_rows: int) -> int:
        """Return how many rows of row groups to decode at once."""
        groups = [self.metadata.row_group(index) for index in row_groups]
        rows = sum(group.num_rows for group in groups)
        return batch_size(rows, sum(group.total_byte_size for group in groups), batch_rows)

    def limited_batch_rows(
        self, leaves: Sequence[int], row_groups: Sequence[int], batch_rows: int
    ) -> int:
        """Return how many rows may be decoded at once within the decode limits.

        Raises:
            DataFileError: A column exceeds them in one piece.
        """
        try:
            for group in row_groups:
                batch_rows = limited_batch_rows(
                    self.metadata, group, leaves,
                    read_at=self.read_at, limit=self.max_decoded_bytes, batch_rows=batch_rows,
                )  # fmt: skip
        except DecodedSizeError as error:
            reason = (
                f"{error}, more than expected for a file of its size and more than "
                f"max_inflated_bytes={self.max_decoded_bytes} of ReadOptions"
            )
            cure = "Raise max_inflated_bytes if the file is trusted"
            raise DataFileError(self.table, self.path, reason, cure) from None
        except BadPageError as error:
            raise self.error(str(error)) from None
        return batch_rows

    @property
    def read_at(self) -> Callable[[int, int], bytes] | None:
        """Reads bytes from a position on; None for remote files, where each read is a request."""
        return None if self.is_remote else lambda index, size: self.input.read_at(size, index)

    def error(self, reason: str) -> DataFileError:
        """Return the error for this file."""
        return DataFileError(self.table, self.path, reason)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise Arrow's errors as `DataFileError`."""
        try:
            yield
        except (StoreError, DataFileError):
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.error(" ".join(str(error).split())) from error
