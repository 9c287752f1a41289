"""Decode limits: they keep a small data file from filling the memory.

A page of a kilobyte may decompress to gigabytes, a few bytes may encode a billion values of one
row, and a long dictionary string may be repeated in every row, or strings may grow from row to row
(DELTA_BYTE_ARRAY). Columns without lists are decoded some rows at a time, so only what cannot be
decoded in parts is bounded here: pages, lists, and such strings. A column that is large because it
is large in the file passes.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.parquet import tuning
from lazydelta.parquet.footer.leaf_index import leaf_columns
from lazydelta.parquet.pages.page_headers import BadPageError, PageHeader, read_page_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    ReadAt = Callable[[int, int], bytes]

__all__ = [
    "BOUNDED_CODECS",
    "DecodedSizeError",
    "has_long_strings",
    "limited_batch_rows",
    "split_batch",
]

BOUNDED_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY"})
"""Codecs with a bounded ratio: Snappy makes at most 64 bytes of three."""
_DELTA_BYTE_ARRAY = "DELTA_BYTE_ARRAY"
"""Strings as suffixes of the one before: each may be as long as all before it in its page."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}


class DecodedSizeError(ValueError):
    """A column above the limit; the caller adds the file."""

    def __init__(self, column: str, size: int) -> None:
        super().__init__(f"column {column!r} would decode to {size} bytes")


def limited_batch_rows(
    metadata: pq.FileMetaData, row_group: int, leaves: Sequence[int], *,
    read_at: ReadAt | None, limit: int, batch_rows: int,
) -> int:  # fmt: skip
    """Return how many rows of a row group may be decoded at once.

    Args:
        metadata: The footer.
        row_group: Its index.
        leaves: The leaf columns to decode.
        read_at: Reads bytes of the file, so that the footer need not be trusted; None for remote
            files, where each read is a request.
        limit: Bytes that a column may decode to in one piece, however small it is in the file.
        batch_rows: Maximum rows.

    Raises:
        DecodedSizeError: A column exceeds the limit.
        BadPageError: The page headers contradict the footer.
    """
    chunks, columns = metadata.row_group(row_group), leaf_columns(metadata)
    for leaf in leaves:
        chunk = chunks.column(leaf)
        column = columns.column(leaf)
        allowed = max(limit, tuning.EXPECTED_RATIO * chunk.total_compressed_size)
        if column.max_repetition_level or chunk.compression not in BOUNDED_CODECS:
            size = _whole_size(chunk, column, read_at)
            if size > allowed:
                raise DecodedSizeError(column.path, size)
        if column.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page:
            dictionary = _dictionary_size(chunk, read_at)
            if dictionary > tuning.EXPECTED_DICTIONARY_BYTES:
                batch_rows = min(batch_rows, max(limit // dictionary, 1))
        if column.physical_type == "BYTE_ARRAY":
            longest = _longest_delta_string(chunk, read_at)
            batch_rows = min(batch_rows, max(limit // longest, 1)) if longest else batch_rows
    return batch_rows


def has_long_strings(chunk: Any, read_at: ReadAt | None) -> bool:
    """Whether the strings in a chunk's dictionary are long on average; False if unknown."""
    if read_at is None:
        return False
    try:
        first = next(_page_headers(chunk, read_at), None)
    except BadPageError:
        return False
    if first is None or not first.is_dictionary:
        return False
    return first.uncompressed_size > tuning.LONG_STRING_BYTES * first.num_values


def split_batch(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices whose dictionary strings take at most `limit` bytes decoded."""
    longest = max(map(_longest_dictionary_string, batch.columns), default=0)
    rows = max(limit // longest, 1) if longest else batch.num_rows
    for start in range(0, batch.num_rows, rows):
        yield batch if rows >= batch.num_rows else batch.slice(start, rows)


def _whole_size(chunk: Any, column: Any, read_at: ReadAt | None) -> int:
    """Return the bytes that cannot be decoded in parts: all pages, and the values of lists."""
    size, num_values = chunk.total_uncompressed_size, chunk.num_values
    if read_at is not None:
        pages = list(_page_headers(chunk, read_at))
        size = sum(page.uncompressed_size for page in pages)
        in_pages = sum(page.num_values for page in pages if not page.is_dictionary)
        if in_pages != num_values:
            raise BadPageError(
                f"column {column.path!r} has {in_pages} values, {num_values} by its footer"
            )
    if column.max_repetition_level:
        size = max(size, num_values * _WIDTHS.get(column.physical_type, 8))
    return int(size)


def _longest_delta_string(chunk: Any, read_at: ReadAt | None) -> int:
    """Return the maximum length of DELTA_BYTE_ARRAY strings; 0 if there are none."""
    if read_at is None:
        has_deltas = _DELTA_BYTE_ARRAY in chunk.encodings
        return int(chunk.total_uncompressed_size) if has_deltas else 0
    pages = _page_headers(chunk, read_at)
    return max((page.uncompressed_size for page in pages if page.is_delta_byte_array), default=0)


def _dictionary_size(chunk: Any, read_at: ReadAt | None) -> int:
    """Return the bytes of a dictionary; 0 if it is small or its size unknown."""
    if chunk.total_uncompressed_size <= tuning.EXPECTED_DICTIONARY_BYTES or read_at is None:
        return 0
    first = next(islice(_page_headers(chunk, read_at), 1), None)
    return first.uncompressed_size if first is not None and first.is_dictionary else 0


def _page_headers(chunk: Any, read_at: ReadAt) -> Iterator[PageHeader]:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    return read_page_headers(read_at, start, chunk.total_compressed_size)


def _longest_dictionary_string(column: pa.Array) -> int:
    """Return the length of the longest string in a column's dictionary; 0 without one."""
    if not isinstance(column, pa.DictionaryArray) or not len(column.dictionary):
        return 0
    return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
