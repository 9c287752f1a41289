"""Page headers of a Parquet column chunk: sizes, value counts and statistics of its pages.

A footer may be wrong about a column, and a page of some bytes may decode to billions of values.
The decoder follows the headers, so they are validated before it runs. Reads no values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lazydelta.parquet import tuning
from lazydelta.parquet.footer.thrift import Reader, ThriftError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    ReadAt = Callable[[int, int], bytes]

__all__ = ["BadPageError", "PageHeader", "PageStatistics", "read_page_headers"]

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
# By type of data page: field numbers of its own header, and there of encoding and statistics.
_DATA_FIELDS = {_DATA: (5, 2, 5), _DATA_V2: (8, 4, 8)}


class BadPageError(ValueError):
    """An invalid page header; the caller adds the file."""


class PageStatistics(NamedTuple):
    """Statistics of a page; None is unknown. Bounds are encoded as in Parquet."""

    min_value: bytes | None = None
    max_value: bytes | None = None
    null_count: int | None = None


class PageHeader(NamedTuple):
    """The header of one page."""

    is_dictionary: bool
    uncompressed_size: int
    num_values: int
    """Nulls included; of a dictionary page, its entries."""
    is_delta_byte_array: bool = False
    statistics: PageStatistics = PageStatistics()


def read_page_headers(read_at: ReadAt, start: int, length: int) -> Iterator[PageHeader]:
    """Yield the headers of the pages of a column chunk, in order.

    Args:
        read_at: Reads bytes from a position on; fewer at the end of the file.
        start: Position of the first page.
        length: Bytes of all pages together.

    Raises:
        BadPageError: The headers are damaged, or reach beyond the chunk.
    """
    position, end = start, start + length
    while position < end:
        header, size = _header(read_at, position, end)
        position += size + _integer(header, 3)
        if _integer(header, 3) < 0 or _integer(header, 2) < 0 or position > end:
            raise BadPageError("a page does not fit in its column chunk")
        kind = _integer(header, 1)
        if kind == _DICTIONARY:
            num_values = max(_integer(header.get(7), 1), 0)
            yield PageHeader(True, _integer(header, 2), num_values)
        elif kind in _DATA_FIELDS:
            yield _data_page(header, kind)


def _data_page(header: dict[int, Any], kind: int) -> PageHeader:
    field, encoding, statistics = _DATA_FIELDS[kind]
    own = header.get(field)
    num_values = _integer(own, 1)
    if not isinstance(own, dict) or num_values < 0:
        raise BadPageError("a page has no valid value count")
    is_delta = _integer(own, encoding) == _DELTA_BYTE_ARRAY
    return PageHeader(
        False, _integer(header, 2), num_values, is_delta, _statistics(own.get(statistics))
    )


def _statistics(fields: Any) -> PageStatistics:
    """Return the statistics of a header; the deprecated bounds have no defined order."""
    if not isinstance(fields, dict):
        return PageStatistics()
    upper, lower, nulls = fields.get(5), fields.get(6), fields.get(3)
    has_bounds = isinstance(lower, bytes) and isinstance(upper, bytes)
    return PageStatistics(
        lower if has_bounds else None,
        upper if has_bounds else None,
        nulls if isinstance(nulls, int) and nulls >= 0 else None,
    )


def _header(read_at: ReadAt, position: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the header at a position, and its length."""
    window = tuning.PAGE_HEADER_BYTES
    while True:
        data = read_at(position, min(window, end - position))
        reader = Reader(data)
        try:
            return reader.struct(), reader.position
        except IndexError:
            if len(data) < window or window >= tuning.MAX_PAGE_HEADER_BYTES:
                raise BadPageError("a page header is truncated") from None
            window *= 64
        except ThriftError as error:
            raise BadPageError(f"a page header cannot be parsed: {error}") from None


def _integer(fields: Any, number: int) -> int:
    """Return an integer field of a struct; -1 without one."""
    value = fields.get(number) if isinstance(fields, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
