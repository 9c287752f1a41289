"""How much may come out of how little: keeps a small data file from filling the memory.

Parquet is good at saying little for much: a page of a kilobyte may decompress to gigabytes, a few
bytes may mean a billion values in one row, a long text in a dictionary may be repeated in every
row, or grow from row to row. Columns without lists are decoded some rows at a time, so only what
cannot be taken in parts is bounded here: pages, lists, and such texts. What is large because the
file is large passes.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.parquet.page_headers import BadPageError, Page, read_pages
from lazydelta.parquet.row_group_filter import leaf_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    ReadAt = Callable[[int, int], bytes]

__all__ = ["BOUNDED_CODECS", "InflatedError", "has_long_strings", "in_pieces", "rows_at_once"]

_USUAL_RATIO = 64
"""Decoded bytes for each byte in the file that nobody wonders at."""
_USUAL_DICTIONARY = 2 << 20
"""Writers give a dictionary up at one megabyte, some at two."""
BOUNDED_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY"})
"""Codecs that cannot make much of little: Snappy makes 64 bytes of three at most."""
_LONG_TEXT = 1024
"""Bytes; a batch of a hundred thousand such texts is a hundred megabytes."""
_GROWING = "DELTA_BYTE_ARRAY"
"""Texts as what they add to the one before: each may be as long as all before it in its page."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}


class InflatedError(ValueError):
    """What a column would take; whoever knows the file adds its name."""

    def __init__(self, column: str, size: int) -> None:
        super().__init__(f"column {column!r} would decode to {size} bytes")


def rows_at_once(
    metadata: pq.FileMetaData, row_group: int, places: Sequence[int], *,
    read_at: ReadAt | None, limit: int, most: int,
) -> int:  # fmt: skip
    """Return how many rows of a row group may be decoded at once.

    Args:
        metadata: The footer.
        row_group: Its number.
        places: Leaf columns that are going to be decoded.
        read_at: Gives bytes of the file, so that the footer need not be believed; None if asking
            is dear, as it is in remote stores.
        limit: Bytes that a column may decode to in one piece, however small it is in the file.
        most: Rows that are wanted at once.

    Raises:
        InflatedError: A column would take more.
        BadPageError: The pages are not what the footer says.
    """
    chunks, columns = metadata.row_group(row_group), leaf_columns(metadata)
    for place in places:
        chunk = chunks.column(place)
        column = columns.column(place)
        allowed = max(limit, _USUAL_RATIO * chunk.total_compressed_size)
        if column.max_repetition_level or chunk.compression not in BOUNDED_CODECS:
            size = _whole_size(chunk, column, read_at)
            if size > allowed:
                raise InflatedError(column.path, size)
        if column.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page:
            largest = _dictionary_size(chunk, read_at)
            if largest > _USUAL_DICTIONARY:
                most = min(most, max(limit // largest, 1))
        if column.physical_type == "BYTE_ARRAY":
            longest = _longest_grown(chunk, read_at)
            most = min(most, max(limit // longest, 1)) if longest else most
    return most


def has_long_strings(chunk: Any, read_at: ReadAt | None) -> bool:
    """Whether the texts in a column's dictionary are long, by the average; False if not known."""
    if read_at is None:
        return False
    try:
        first = next(_pages(chunk, read_at), None)
    except BadPageError:
        return False
    if first is None or not first.is_dictionary:
        return False
    return first.decompressed > _LONG_TEXT * first.values


def in_pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces whose texts take no more than `limit` once they are looked up."""
    longest = max(map(_longest, batch.columns), default=0)
    rows = max(limit // longest, 1) if longest else batch.num_rows
    for start in range(0, batch.num_rows, rows):
        yield batch if rows >= batch.num_rows else batch.slice(start, rows)


def _whole_size(chunk: Any, column: Any, read_at: ReadAt | None) -> int:
    """Return the bytes of what cannot be decoded in parts: all pages, and the values of lists."""
    size, values = chunk.total_uncompressed_size, chunk.num_values
    if read_at is not None:
        pages = list(_pages(chunk, read_at))
        size = sum(page.decompressed for page in pages)
        found = sum(page.values for page in pages if not page.is_dictionary)
        if found != values:
            raise BadPageError(f"column {column.path!r} has {found} values, {values} by its footer")
    if column.max_repetition_level:
        size = max(size, values * _WIDTHS.get(column.physical_type, 8))
    return int(size)


def _longest_grown(chunk: Any, read_at: ReadAt | None) -> int:
    """Return how long texts may grow that are what each adds to the one before; 0 if none are."""
    if read_at is None:
        return int(chunk.total_uncompressed_size) if _GROWING in chunk.encodings else 0
    grown = (page.decompressed for page in _pages(chunk, read_at) if page.grows)
    return max(grown, default=0)


def _dictionary_size(chunk: Any, read_at: ReadAt | None) -> int:
    """Return the bytes of a dictionary that is not a small one; 0 where that is not known."""
    if chunk.total_uncompressed_size <= _USUAL_DICTIONARY or read_at is None:
        return 0
    first = next(islice(_pages(chunk, read_at), 1), None)
    return first.decompressed if first is not None and first.is_dictionary else 0


def _pages(chunk: Any, read_at: ReadAt) -> Iterator[Page]:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    return read_pages(read_at, start, chunk.total_compressed_size)


def _longest(column: pa.Array) -> int:
    """Return the length of the longest text in a column's dictionary; 0 if it has none."""
    if not isinstance(column, pa.DictionaryArray) or not len(column.dictionary):
        return 0
    return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
