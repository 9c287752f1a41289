"""The rows of each data page of a column chunk, and the page's statistics.

Read from the page index, or from the page headers where a file has none. Only for columns without
lists, where the number of values of a page is its number of rows. A page index that contradicts
the footer is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from lazydelta.parquet.page_headers import BadPageError, PageStatistics, read_pages
from lazydelta.parquet.thrift import Reader, ThriftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.parquet.page_headers import ReadAt

__all__ = ["PageMap", "map_pages"]

_NOTHING_KNOWN = PageStatistics()
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
            found = _by_index(chunk, first, end, num_rows, read_at)
        else:
            found = _by_headers(start, end, read_at)
    except (BadPageError, ThriftError, LookupError, TypeError):
        return None
    rows = found.rows
    is_valid = rows[0] == 0 and rows[-1] == num_rows
    is_valid = is_valid and all(one < next_ for one, next_ in pairwise(rows))
    return found if is_valid else None


def _by_headers(start: int, end: int, read_at: ReadAt) -> PageMap:
    pages = list(read_pages(read_at, start, end - start))
    if pages and pages[0].is_dictionary:
        pages = pages[1:]
    if any(page.is_dictionary for page in pages):
        raise BadPageError("there is something between the data pages")
    rows = list(accumulate((page.values for page in pages), initial=0))
    return PageMap(rows, [page.statistics for page in pages])


def _by_index(
    chunk: dict[int, Any], first: int, end: int, num_rows: int, read_at: ReadAt
) -> PageMap:
    """Return the pages by the page index, which must span the chunk from its first data page on."""
    places = Reader(read_at(chunk[4], chunk[5])).struct()[1]
    ends = [place[1] + place[2] for place in places]
    if [place[1] for place in places] != [first, *ends[:-1]] or ends[-1] != end:
        raise BadPageError("there is something between the data pages")
    rows = [*(place[3] for place in places), num_rows]
    return PageMap(rows, _indexed(chunk, len(places), read_at))


def _indexed(chunk: dict[int, Any], count: int, read_at: ReadAt) -> Sequence[PageStatistics]:
    unknown = [_NOTHING_KNOWN] * count
    if 6 not in chunk or 7 not in chunk:
        return unknown
    index = Reader(read_at(chunk[6], chunk[7])).struct()
    empty, least, most = index[1], index[2], index[3]
    nulls = index.get(5, [None] * count)
    if not len(empty) == len(least) == len(most) == len(nulls) == count:
        return unknown
    return [
        PageStatistics(None, None, none) if is_empty else PageStatistics(low, high, none)
        for is_empty, low, high, none in zip(empty, least, most, nulls, strict=True)
    ]
