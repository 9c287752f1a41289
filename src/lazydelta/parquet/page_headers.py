"""What the pages of a Parquet column claim to hold, read from their headers alone.

A footer may lie about a column, and a page of some bytes may decode to billions of values. The
headers are what the decoder obeys, so they are looked at before it is let loose. Knows the few
fields of a page header that matter; the values are the decoder's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lazydelta.parquet.thrift import Reader, ThriftError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    ReadAt = Callable[[int, int], bytes]

__all__ = ["BadPageError", "Page", "PageStatistics", "read_pages"]

_WINDOW = 4096
"""Bytes to look at for a header: they are some dozens, more only with long statistics."""
_MOST_HEADER = 16 << 20
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
# Of a data page, by version: which field its own header is, and there encoding and statistics.
_DATA_FIELDS = {_DATA: (5, 2, 5), _DATA_V2: (8, 4, 8)}


class BadPageError(ValueError):
    """A header that cannot be true; whoever knows the file adds its name."""


class PageStatistics(NamedTuple):
    """What is known of the values of a page; None is unknown. Bounds are in Parquet's bytes."""

    least: bytes | None = None
    most: bytes | None = None
    nulls: int | None = None


class Page(NamedTuple):
    """One page of a column."""

    is_dictionary: bool
    decompressed: int
    """Bytes, once decompressed."""
    values: int
    """How many, nulls included; of a dictionary, its entries."""
    grows: bool = False
    """Whether its texts are what each adds to the one before."""
    statistics: PageStatistics = PageStatistics()


def read_pages(read_at: ReadAt, start: int, length: int) -> Iterator[Page]:
    """Yield the pages of a column chunk, in order.

    Args:
        read_at: Gives some bytes from a position on; fewer at the end of the file.
        start: Position of the first page.
        length: Bytes of all pages together.

    Raises:
        BadPageError: The headers are damaged, or go beyond the chunk.
    """
    position, end = start, start + length
    while position < end:
        header, size = _header(read_at, position, end)
        position += size + _number(header, 3)
        if _number(header, 3) < 0 or _number(header, 2) < 0 or position > end:
            raise BadPageError("a page does not fit in its column")
        kind = _number(header, 1)
        if kind == _DICTIONARY:
            values = max(_number(header.get(7), 1), 0)
            yield Page(True, _number(header, 2), values)
        elif kind in _DATA_FIELDS:
            yield _data_page(header, kind)


def _data_page(header: dict[int, Any], kind: int) -> Page:
    place, encoding, statistics = _DATA_FIELDS[kind]
    own = header.get(place)
    values = _number(own, 1)
    if not isinstance(own, dict) or values < 0:
        raise BadPageError("a page has less than no values")
    grows = _number(own, encoding) == _DELTA_BYTE_ARRAY
    return Page(False, _number(header, 2), values, grows, _statistics(own.get(statistics)))


def _statistics(found: Any) -> PageStatistics:
    """Return what a header tells of its values; bounds of the old kind have no known order."""
    if not isinstance(found, dict):
        return PageStatistics()
    most, least, nulls = found.get(5), found.get(6), found.get(3)
    has_bounds = isinstance(least, bytes) and isinstance(most, bytes)
    return PageStatistics(
        least if has_bounds else None,
        most if has_bounds else None,
        nulls if isinstance(nulls, int) and nulls >= 0 else None,
    )


def _header(read_at: ReadAt, position: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the header at a position, and how long it is."""
    window = _WINDOW
    while True:
        data = read_at(position, min(window, end - position))
        reader = Reader(data)
        try:
            return reader.struct(), reader.at
        except IndexError:
            if len(data) < window or window >= _MOST_HEADER:
                raise BadPageError("a page's header is cut off") from None
            window *= 64
        except ThriftError as error:
            raise BadPageError(f"a page's header cannot be read: {error}") from None


def _number(fields: Any, number: int) -> int:
    """Return a number of a struct; -1 where there is none."""
    found = fields.get(number) if isinstance(fields, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else -1
