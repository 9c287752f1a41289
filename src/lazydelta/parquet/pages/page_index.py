"""The rows of each data page of a column chunk, and the page's statistics.

Read from the page index, or from the page headers where a file has none. Only for columns without
lists, where the number of values of a page is its number of rows. A page index that contradicts
the footer is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from lazydelta.parquet.footer.thrift import Reader, ThriftError
from lazydelta.parquet.pages.page_headers import BadPageError, PageStatistics, read_page_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.parquet.pages.page_headers import ReadAt

__all__ = ["PageMap", "map_pages"]

_UNKNOWN = PageStatistics()
_ELSEWHERE = {1, 8, 9}
"""Fields of a chunk that is encrypted or in another file."""


@dataclass(frozen=True, slots=True)
class PageMap:
    """The data pages of a column chunk."""

    rows: Sequence[int]
    """The first row of each page, counted from the row group's first; and the number of rows."""
    statistics: Sequence[PageStatistics]


def map_pages(chunk: dict[int, Any], num_rows: int, read_at: ReadAt) -> PageMap | None:
    """Return the pages of a column chunk; None where that is unknown.

    Args:
        chunk: Of the footer, by field number; its column has no lists.
        num_rows: Rows of the row group.
        read_at: Returns bytes of the file from a position on.
    """
    try:
        details = chunk[3]
        if details[5] != num_rows or _ELSEWHERE & chunk.keys():
            return None
        first, dictionary = details[9], details.get(11, 0)
        start = dictionary if 0 < dictionary < first else first
        end = start + details[7]
        if 4 in chunk and 5 in chunk:
            pages = _from_index(chunk, first, end, num_rows, read_at)
        else:
            pages = _from_headers(start, end, read_at)
    except (BadPageError, ThriftError, LookupError, TypeError):
        return None
    rows = pages.rows
    is_valid = rows[0] == 0 and rows[-1] == num_rows
    is_valid = is_valid and all(start < end for start, end in pairwise(rows))
    return pages if is_valid else None


def _from_headers(start: int, end: int, read_at: ReadAt) -> PageMap:
    headers = list(read_page_headers(read_at, start, end - start))
    if headers and headers[0].is_dictionary:
        headers = headers[1:]
    if any(header.is_dictionary for header in headers):
        raise BadPageError("the data pages are not contiguous")
    rows = list(accumulate((header.num_values for header in headers), initial=0))
    return PageMap(rows, [header.statistics for header in headers])


def _from_index(
    chunk: dict[int, Any], first: int, end: int, num_rows: int, read_at: ReadAt
) -> PageMap:
    """Return the pages by the page index, which must span the chunk from its first data page on."""
    locations = Reader(read_at(chunk[4], chunk[5])).struct()[1]
    ends = [location[1] + location[2] for location in locations]
    if [location[1] for location in locations] != [first, *ends[:-1]] or ends[-1] != end:
        raise BadPageError("the data pages are not contiguous")
    rows = [*(location[3] for location in locations), num_rows]
    return PageMap(rows, _column_index(chunk, len(locations), read_at))


def _column_index(chunk: dict[int, Any], count: int, read_at: ReadAt) -> Sequence[PageStatistics]:
    unknown = [_UNKNOWN] * count
    if 6 not in chunk or 7 not in chunk:
        return unknown
    index = Reader(read_at(chunk[6], chunk[7])).struct()
    null_pages, lower, upper = index[1], index[2], index[3]
    null_counts = index.get(5, [None] * count)
    if not len(null_pages) == len(lower) == len(upper) == len(null_counts) == count:
        return unknown
    return [
        PageStatistics(None, None, nulls) if is_null else PageStatistics(low, high, nulls)
        for is_null, low, high, nulls in zip(null_pages, lower, upper, null_counts, strict=True)
    ]
