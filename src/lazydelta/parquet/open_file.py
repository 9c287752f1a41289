"""An open Parquet file: its bytes, its footer and its limits. Shared by the readers of a file."""

from __future__ import annotations

from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta._parallel import start_thread
from lazydelta.errors import DataFileError, StoreError
from lazydelta.parquet import tuning
from lazydelta.parquet.decode_limits import DecodedSizeError, limited_batch_rows
from lazydelta.parquet.footer.file_footer import footer_range, parse_footer, read_footer
from lazydelta.parquet.footer.leaf_index import LeafColumns, chunk_ranges
from lazydelta.parquet.pages.page_headers import BadPageError
from lazydelta.parquet.row_batches import batch_size
from lazydelta.store import RangedInput, is_local, local_path
from lazydelta.store.layers import disk_cache_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    from lazydelta.parquet.footer.file_footer import Footer
    from lazydelta.store import Store
    from lazydelta.store.layers import DiskCache

__all__ = ["OpenFile"]


class OpenFile:
    """An open file, footer parsed.

    Args:
        store: The store of the file.
        path: Its path in the store.
        size: Its size in the log; saves a request.
        modified: Its modification time in the log; None does not cache its footer.
        whole: Whether the caller reads all columns and row groups.
        max_decoded_bytes: Maximum bytes that a column of a row group may decode to in one piece,
            unless it is large in the file as well.

    Raises:
        ObjectNotFoundError: It does not exist.
        DataFileError: It is not a Parquet file, or damaged.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        size: int | None,
        *,
        modified: int | None,
        whole: bool,
        max_decoded_bytes: int,
    ) -> None:
        self.path = path
        self.table = store.root
        self.is_remote = not is_local(store)
        self.local_path = local_path(store, path)
        self.max_decoded_bytes = max_decoded_bytes
        with self.errors():
            self._ranges = RangedInput(store, path, size)
            try:
                size = self._ranges.size()
                if whole and size <= tuning.WHOLE_READ_BYTES:
                    self._ranges.fetch([(0, size)])
                    self.footer = read_footer(self.input)
                else:
                    key = None if modified is None else (store.root, path, size, modified)
                    self.footer = self._read_footer(size, key, disk_cache_of(store))
                # Reads all names: those that are not UTF-8 fail here, with the file's path.
                self.leaves = LeafColumns(self.footer.metadata)
            except BaseException:
                self.close()
                raise
        self.metadata: pq.FileMetaData = self.footer.metadata
        self.schema: pa.Schema = self.footer.schema
        self._starts: list[int] | None = None

    def _read_footer(
        self, size: int, key: tuple[object, ...] | None, disk: DiskCache | None
    ) -> Footer:
        """Read the footer from the disk cache, else from the file, whose footer is then cached."""
        if key is None or disk is None:
            self._ranges.fetch([footer_range(size)])
            return read_footer(self.input)
        cached = disk.get(*key, "footer")
        if cached is not None:
            return parse_footer(cached.to_pybytes())
        self._ranges.fetch([footer_range(size)])
        footer = read_footer(self.input)
        disk.put(pa.py_buffer(footer.data), *key, "footer")
        return footer

    @property
    def input(self) -> pa.NativeFile:
        """The file object: reads of a remote file that were not fetched are requests."""
        return self._ranges.file

    def close(self) -> None:
        """Close the file."""
        self._ranges.close()

    @contextmanager
    def fetched(self, leaves: Sequence[int], row_groups: Sequence[int]) -> Iterator[None]:
        """Keep columns of row groups in memory for the duration of the context.

        Those of a remote file are requested together. A local file is read in place.
        """
        if not self.is_remote:
            yield
            return
        size = self._ranges.size()
        ranges = [
            (start, end)
            for start, end in chunk_ranges(self.metadata, leaves, row_groups)
            if 0 <= start < end <= size  # pyarrow reports the others
        ]
        with self._ranges.fetched(ranges):
            yield

    def fetched_parts(
        self, leaves: Sequence[int], parts: Sequence[Sequence[int]], *, ahead: bool
    ) -> Iterator[Sequence[int]]:
        """Yield parts of the row groups, each while its columns are in memory.

        Args:
            leaves: The leaf columns.
            parts: Row groups to fetch together.
            ahead: Whether to fetch the next part while the caller uses this one.
        """
        contexts = [self.fetched(leaves, part) for part in parts]
        fetching: Future[None] | None = None
        try:
            for index, part in enumerate(parts):
                with self.errors():
                    if fetching is None:
                        contexts[index].__enter__()
                    else:
                        fetching.result()
                        fetching = None
                if ahead and index + 1 < len(parts):
                    fetching = start_thread(contexts[index + 1].__enter__)
                try:
                    yield part
                finally:
                    contexts[index].__exit__(None, None, None)
        finally:
            if fetching is not None:
                wait([fetching])

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
