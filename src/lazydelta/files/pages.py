"""What the pages of a Parquet column claim to hold, read from their headers alone.

A footer may lie about a column, and a page of some bytes may decode to billions of values. The
headers are what the decoder obeys, so they are looked at before it is let loose. Knows the few
fields of a page header that matter; the values are the decoder's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BadPageError", "Page", "read_pages"]

_WINDOW = 4096
"""Bytes to look at for a header: they are some dozens, more only with long statistics."""
_MOST_HEADER = 16 << 20
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_BOUND_TYPES = (1, 2)  # booleans are in the type itself
_I8, _INTEGERS, _DOUBLE, _BINARY, _STRUCT = 3, (4, 5, 6), 7, 8, 12
_DEEPEST = 16


class BadPageError(ValueError):
    """A header that cannot be true; whoever knows the file adds its name."""


class Page(NamedTuple):
    """One page of a column."""

    is_dictionary: bool
    decompressed: int
    """Bytes, once decompressed."""
    values: int
    """How many, nulls included; of a dictionary, its entries."""


def read_pages(read_at: Callable[[int, int], bytes], start: int, length: int) -> Iterator[Page]:
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
        compressed = header.number(3)
        if compressed < 0 or header.number(2) < 0 or position + size + compressed > end:
            raise BadPageError("a page does not fit in its column")
        position += size + compressed
        kind = header.number(1)
        if kind == _DICTIONARY:
            yield Page(True, header.number(2), max(header.number(7, 1), 0))
        elif kind in (_DATA, _DATA_V2):
            values = header.number(5 if kind == _DATA else 8, 1)
            if values < 0:
                raise BadPageError("a page has less than no values")
            yield Page(False, header.number(2), values)


def _header(read_at: Callable[[int, int], bytes], position: int, end: int) -> tuple[_Fields, int]:
    """Return the header at a position, and how long it is."""
    window = _WINDOW
    while True:
        data = read_at(position, min(window, end - position))
        parser = _Compact(data)
        try:
            return parser.struct(0), parser.at
        except IndexError:
            if len(data) < window or window >= _MOST_HEADER:
                raise BadPageError("a page's header is cut off") from None
            window *= 64


class _Fields(dict[int, "int | _Fields"]):
    """The numbers of a Thrift struct by field, and the structs in it."""

    def number(self, *path: int) -> int:
        found: int | _Fields = self
        for key in path:
            found = found.get(key, -1) if isinstance(found, _Fields) else -1
        return found if isinstance(found, int) else -1


class _Compact:
    """Thrift's compact protocol, as much as a page header takes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self, depth: int) -> _Fields:
        if depth > _DEEPEST:
            raise BadPageError("a page's header is too deep")
        fields, number = _Fields(), 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._zigzag()
            value = self._value(kind, depth)
            if value is not None:
                fields[number] = value
        return fields

    def _value(self, kind: int, depth: int) -> int | _Fields | None:
        if kind in _BOUND_TYPES:
            return None
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            self._skip(self._varint())
        elif kind in (_I8, _DOUBLE):
            self._skip(1 if kind == _I8 else 8)
        else:  # no list or map is known in a page header
            raise BadPageError(f"a page's header has a field of type {kind}")
        return None

    def _byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise BadPageError("a number in a page's header is too long")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError
