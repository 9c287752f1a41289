"""Row-group reader of pyarrow: reads every file, and decodes each row group from its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.parquet import tuning
from lazydelta.parquet.decode_limits import has_long_strings, split_batch
from lazydelta.parquet.row_batches import RowBatch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lazydelta.parquet.open_file import OpenFile
    from lazydelta.parquet.row_selection import RowSelection

__all__ = ["PyArrowReader"]


class PyArrowReader:
    """Reads with pyarrow. Returns rows that are not selected too, with a mask.

    Strings that the file keeps in a dictionary stay dictionary-encoded, whatever the schema has:
    decoding them at once, after rows were dropped, takes half the time.

    Args:
        file: The open file.
        threads: Whether to decode columns in parallel.
    """

    def __init__(self, file: OpenFile, *, threads: bool) -> None:
        self._file = file
        self._threads = threads

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
        """As `RowGroupReader.read`; views are not supported, so never returned."""
        del views
        first, end = self._file.positions(row_groups)
        if row_range is not None:
            batch_rows = min(batch_rows, row_range[1] - first)
        for rows in self._rows(columns, row_groups, (first, end), batch_rows):
            if row_range is None:
                yield rows if keep is None else rows.select(keep(rows.start, rows.length))
                continue
            if rows.end > row_range[0]:
                part = rows.part(*row_range)
                yield part if keep is None else part.select(keep(part.start, part.length))
            if rows.end >= row_range[1]:
                return

    def _rows(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int],
        positions: tuple[int, int],
        batch_rows: int,
    ) -> Iterator[RowBatch]:
        position, end = positions
        if not columns:
            for start in range(position, end, batch_rows):
                yield RowBatch(start, min(batch_rows, end - start), None)
            return
        for batch in self._batches(columns, row_groups, batch_rows):
            yield RowBatch(position, batch.num_rows, batch)
            position += batch.num_rows
        if position != end:
            first, last = row_groups[0], row_groups[-1]
            raise self._file.error(
                f"{end - position} rows of row groups {first} to {last} are missing"
            )

    def _batches(
        self, columns: Sequence[str], row_groups: Sequence[int], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        file = self._file
        leaves = file.leaves.below(columns)
        with file.errors():
            batch_rows = file.batch_size(row_groups, batch_rows)
            batch_rows = file.limited_batch_rows(leaves, row_groups, batch_rows)
            for batch in self._open(columns, row_groups).iter_batches(
                batch_rows, row_groups=list(row_groups), column_indices=leaves,
                use_threads=self._threads,
            ):  # fmt: skip
                yield from split_batch(batch, file.max_decoded_bytes)

    def _open(self, columns: Sequence[str], row_groups: Sequence[int]) -> pq.ParquetReader:
        """Return a new pyarrow reader: batch sizes belong to it, so reads must not share one."""
        file = self._file
        encoded = self._dictionary_columns(row_groups[0], set(columns))
        # Not `ParquetFile`, which takes no pool: docs/adr/0020 has what the default one costs.
        reader = pq.ParquetReader(pa.system_memory_pool())
        reader.open(
            file.input,
            metadata=file.metadata,
            read_dictionary=sorted(encoded),
            pre_buffer=file.is_remote,
            buffer_size=0 if file.is_remote else tuning.LOCAL_BUFFER_BYTES,
            coerce_int96_timestamp_unit="us",  # nanoseconds end in the year 2262
            thrift_string_size_limit=tuning.THRIFT_LIMIT,
            thrift_container_size_limit=tuning.THRIFT_LIMIT,
        )
        return reader

    def _dictionary_columns(self, row_group: int, columns: Collection[str]) -> set[str]:
        """Return the string columns that a file keeps in a dictionary, estimated by their size.

        The footer does not tell whether a writer abandoned its dictionary halfway. A plain string
        takes four bytes for its length alone, a dictionary index hardly more than two. Long
        strings stay dictionary-encoded in any case: decoded, they would fill the memory.
        """
        file = self._file
        chunks = file.metadata.row_group(row_group)
        encoded = set()
        for index, path in enumerate(file.leaves.paths):
            # Inside of a struct or list the type would change where no caller expects it.
            if path not in columns or "." in path:
                continue
            if file.leaves.columns.column(index).physical_type != "BYTE_ARRAY":
                continue
            chunk = chunks.column(index)
            if not chunk.has_dictionary_page:
                continue
            is_small = chunk.total_uncompressed_size < 4 * chunk.num_values
            if is_small or has_long_strings(chunk, file.read_at):
                encoded.add(path)
        return encoded
