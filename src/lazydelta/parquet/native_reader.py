"""Row-group reader of the native decoder: local files, columns that are not nested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.parquet import tuning
from lazydelta.parquet.decode_limits import BOUNDED_CODECS
from lazydelta.parquet.footer.leaf_index import compression_codecs
from lazydelta.parquet.native import (
    NATIVE_CODECS,
    decode_row_groups,
    file_template,
    has_native_decoder,
)
from lazydelta.parquet.row_batches import RowBatch
from lazydelta.parquet.row_selection import selection_bitmap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lazydelta.parquet.native import FileTemplate
    from lazydelta.parquet.open_file import OpenFile
    from lazydelta.parquet.row_selection import RowSelection

__all__ = ["NativeReader"]


class NativeReader:
    """Reads with the native decoder. Drops the rows that are not selected."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._refused: set[frozenset[str]] = set()

    def can_read(self, columns: Sequence[str], row_groups: Sequence[int]) -> bool:
        """Whether the decoder may read columns. It may still refuse them, but only once."""
        return self._readable_leaves(columns, row_groups) is not None

    def refuse(self, columns: Sequence[str]) -> None:
        """Do not read these columns again."""
        self._refused.add(frozenset(columns))

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
        """As `RowGroupReader.read`."""
        file = self._file
        leaves = self._readable_leaves(columns, row_groups) if columns else None
        if leaves is None or file.local_path is None:
            return None
        first, end = file.positions(row_groups)
        start, stop = row_range or (first, end)
        if row_range is not None:
            batch_rows = min(batch_rows, max(stop - start, 1))
        bitmap = None
        if keep is not None:
            if stop - start > tuning.BITMAP_ROWS:
                return None
            bitmap = selection_bitmap(keep, start, stop)
        rows = file.batch_size(row_groups, batch_rows)
        if not compression_codecs(file.metadata, leaves, row_groups) <= BOUNDED_CODECS:
            rows = file.limited_batch_rows(leaves, row_groups, rows)
        batches = decode_row_groups(
            file.local_path, file.leaves.fields(leaves, file.schema), leaves, row_groups, rows,
            row_range=None if row_range is None else (start - first, stop - first), keep=bitmap,
            max_string_bytes=None if views else file.max_decoded_bytes,
        )  # fmt: skip
        if batches is None:
            self.refuse(columns)
            return None
        return self._positioned(batches, start)

    def _positioned(self, batches: Iterator[pa.RecordBatch], start: int) -> Iterator[RowBatch]:
        with self._file.errors():
            for batch in batches:
                yield RowBatch(start, batch.num_rows, batch)
                start += batch.num_rows

    def template(
        self, columns: Sequence[str], *, views: bool, output_schema: pa.Schema | None
    ) -> FileTemplate | None:
        """As `DataFile.template`."""
        file = self._file
        leaves = self._flat_leaves(columns, range(file.metadata.num_row_groups))
        if leaves is None or file.local_path is None:
            return None
        fields = file.leaves.fields(leaves, file.schema)
        if [field.name for field in fields] != list(columns):
            output_schema = None
        return file_template(
            file.local_path, fields, leaves, file.max_decoded_bytes,
            views=views, output_schema=output_schema,
        )  # fmt: skip

    def _readable_leaves(
        self, columns: Sequence[str], row_groups: Sequence[int]
    ) -> list[int] | None:
        if self._refused and frozenset(columns) in self._refused:
            return None
        return self._flat_leaves(columns, row_groups)

    def _flat_leaves(self, columns: Sequence[str], row_groups: Sequence[int]) -> list[int] | None:
        """Return the leaves of columns that the decoder supports; None if it does not."""
        file = self._file
        if file.local_path is None or not has_native_decoder():
            return None
        leaves = file.leaves.below(columns)
        for leaf in leaves:
            if "." in file.leaves.paths[leaf]:
                return None
            if file.leaves.columns.column(leaf).physical_type == "INT96":
                return None
        codecs = compression_codecs(file.metadata, leaves, row_groups)
        return leaves if codecs <= NATIVE_CODECS else None
