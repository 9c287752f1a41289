"""Where the data pages of a column chunk are, which rows they hold, and what is known of those.

A file may have an index of its pages; else their headers are walked, which takes some microseconds
for each. Only of columns without lists is a page's number of values its number of rows, so only
those have a map. What does not add up has none either: the decoder then finds out why.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
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
"""Fields of a chunk in another file, or of an encrypted one."""


@dataclass(frozen=True, slots=True)
class PageMap:
    """The data pages of a column chunk, which lie side by side."""

    rows: Sequence[int]
    """The first row of each page, counted from the row group's first; and the number of rows."""
    positions: Sequence[int]
    """Where each page begins in the file, and where the last one ends."""
    dictionary: tuple[int, int] | None
    """Where the dictionary begins and ends; None if there is none."""
    statistics: Sequence[PageStatistics]

    def holding(self, start: int, end: int) -> tuple[int, int]:
        """Return the first page that holds some of the rows, and the one after the last."""
        return bisect_right(self.rows, start) - 1, bisect_left(self.rows, end)


def map_pages(
    chunk: dict[int, Any], num_rows: int, read_at: ReadAt, *, statistics: bool
) -> PageMap | None:
    """Return where the pages of a column chunk are; None where that cannot be told.

    Args:
        chunk: The chunk as the footer has it; its column has no lists.
        num_rows: Rows of the row group.
        read_at: Gives some bytes of the file from a position on.
        statistics: Whether it is wanted what is known of the values.
    """
    try:
        details = chunk[3]
        if details[5] != num_rows or _ELSEWHERE & chunk.keys():
            return None
        first, dictionary = details[9], details.get(11, 0)
        start = dictionary if 0 < dictionary < first else first
        end = start + details[7]
        if 4 in chunk and 5 in chunk:
            found = _by_index(chunk, (start, first, end), num_rows, read_at)
            if statistics:
                found = replace(found, statistics=_indexed(chunk, len(found.statistics), read_at))
        else:
            found = _by_headers(start, end, read_at)
    except (BadPageError, ThriftError, LookupError, TypeError):
        return None
    rows, positions = found.rows, found.positions
    is_sound = rows[0] == 0 and rows[-1] == num_rows and positions[-1] == end
    is_sound = is_sound and all(one < next_ for one, next_ in pairwise(rows))
    return found if is_sound else None


def _by_headers(start: int, end: int, read_at: ReadAt) -> PageMap:
    pages = list(read_pages(read_at, start, end - start))
    dictionary = None
    if pages and pages[0].is_dictionary:
        first, *pages = pages
        dictionary = first.start, first.end
    positions = [page.start for page in pages]
    if any(page.is_dictionary for page in pages) or positions[1:] != [p.end for p in pages[:-1]]:
        raise BadPageError("there is something between the data pages")
    rows = list(accumulate((page.values for page in pages), initial=0))
    return PageMap(rows, [*positions, pages[-1].end], dictionary, [p.statistics for p in pages])


def _by_index(
    chunk: dict[int, Any], bounds: tuple[int, int, int], num_rows: int, read_at: ReadAt
) -> PageMap:
    """Return what the index says.

    Args:
        chunk: As the footer has it.
        bounds: Where the chunk begins, where its first data page does, and where it ends.
        num_rows: Rows of the row group.
        read_at: Gives some bytes of the file from a position on.
    """
    start, first, end = bounds
    places = Reader(read_at(chunk[4], chunk[5])).struct()[1]
    positions = [place[1] for place in places]
    ends = [place[1] + place[2] for place in places]
    if positions != [first, *ends[:-1]] or ends[-1] != end:
        raise BadPageError("there is something between the data pages")
    return PageMap(
        [*(place[3] for place in places), num_rows],
        [*positions, end],
        (start, first) if start < first else None,
        [_NOTHING_KNOWN] * len(places),
    )


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
