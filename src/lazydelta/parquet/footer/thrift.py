"""Thrift's compact protocol: from bytes to dicts by field number.

Unknown fields are accepted. Input may be damaged or hostile: nesting and the length of integers are
bounded, and nothing larger than the input is allocated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.parquet import tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BINARY",
    "BOOL",
    "FALSE",
    "I16",
    "I32",
    "I64",
    "INTEGERS",
    "LIST",
    "STRUCT",
    "Reader",
    "ThriftError",
    "without_fields",
]

BOOL, FALSE, _I8, I16, I32, I64, _DOUBLE, BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)
INTEGERS = frozenset((I16, I32, I64))
_STEPPED = INTEGERS | {BINARY, STRUCT}  # skipped without being read
_MAX_SHIFT = 63
_SHORT_LIST = 15


class ThriftError(ValueError):
    """Invalid bytes. Truncated ones raise an `IndexError`."""


class Reader:
    """Reads values from a position on; `at` is the position after the last one."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return a struct's values by field number; strings and doubles are bytes."""
        if depth > tuning.MAX_THRIFT_DEPTH:
            raise ThriftError("it is nested too deeply")
        fields: dict[int, Any] = {}
        number, kind = self.field(0)
        while kind:
            fields[number] = self.value(kind, depth)
            number, kind = self.field(number)
        return fields

    def field(self, last: int) -> tuple[int, int]:
        """Return number and type of the next field of a struct; type 0 is the struct's end."""
        head = self.data[self.position]
        self.position += 1
        step, kind = head >> 4, head & 15
        return (last + step if step or not kind else self._zigzag()), kind

    def value(self, kind: int, depth: int) -> Any:
        """Return a value of a type."""
        if kind in INTEGERS:
            return self._zigzag()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind == LIST:
            return self._list(depth + 1)
        if kind in (BOOL, FALSE):  # a field's boolean is in its type
            return kind == BOOL
        if kind in (_I8, _DOUBLE):
            return self._bytes(1 if kind == _I8 else 8)
        raise ThriftError(f"it has a field of the unknown type {kind}")

    def number(self) -> int:
        """Return an integer."""
        return self._zigzag()

    def size(self) -> int:
        """Return the length of a string; its bytes are next."""
        return self._varint()

    def list_size(self) -> tuple[int, int]:
        """Return the length and element type of a list; its values are next."""
        head = self.data[self.position]
        self.position += 1
        count, kind = head >> 4, head & 15
        if count == _SHORT_LIST:
            count = self._varint()
        if count > len(self.data) - self.position:  # each takes at least a byte
            raise IndexError
        return count, kind

    def skip(self, kind: int) -> None:
        """Skip a value of a type; takes half the time of reading it."""
        self.position = _end_of(kind, self.data, self.position)

    def _list(self, depth: int) -> list[Any]:
        if depth > tuning.MAX_THRIFT_DEPTH:
            raise ThriftError("it is nested too deeply")
        count, kind = self.list_size()
        if kind in (BOOL, FALSE):
            return [byte == BOOL for byte in self._bytes(count)]
        return [self.value(kind, depth) for _ in range(count)]

    def _bytes(self, size: int) -> bytes:
        start = self.position
        self.position += size
        if self.position > len(self.data):
            raise IndexError
        return self.data[start : self.position]

    def _varint(self) -> int:
        byte = self.data[self.position]
        self.position += 1
        if byte < 128:
            return byte
        value, shift = byte & 127, 7
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > _MAX_SHIFT:
                raise ThriftError("an integer is too long")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


def _end_of(kind: int, data: bytes, position: int, depth: int = 0) -> int:
    """Return the end of a value."""
    if kind in INTEGERS:
        while data[position] > 127:
            position += 1
        return position + 1
    if kind == STRUCT and depth <= tuning.MAX_THRIFT_DEPTH:
        while head := data[position]:
            position = position + 1 if head > 15 else _end_of(I32, data, position + 1, depth)
            position = _end_of(head & 15, data, position, depth + 1)
        return position + 1
    if kind == BINARY and data[position] < 128 and position + data[position] < len(data):
        return position + 1 + data[position]
    if kind == LIST and (data[position] & 15) in _STEPPED and data[position] >> 4 < _SHORT_LIST:
        kind, count = data[position] & 15, data[position] >> 4
        position += 1
        for _ in range(count):
            position = _end_of(kind, data, position, depth + 1)
        return position
    reader = Reader(data, position)
    reader.value(kind, depth)
    return reader.position


def without_fields(data: bytes, fields: Sequence[tuple[int, int, int]]) -> bytes:
    """Return bytes without some fields of their structs.

    Args:
        data: The bytes.
        fields: Start, end and number of each, ascending.
    """
    starts = {start for start, _, _ in fields}
    parts, position = [], 0
    for start, end, number in fields:
        parts.append(data[position:start])
        position = end
        step, kind = data[end] >> 4, data[end] & 15
        if step and kind and end not in starts:  # its number is relative to the removed field
            parts.append(bytes([kind]) + _encoded_number(number + step))
            position += 1
    return b"".join([*parts, data[position:]])


def _encoded_number(number: int) -> bytes:
    """Return an integer as a zigzag varint.

    >>> [_encoded_number(number).hex() for number in (0, -1, 1, 64)]
    ['00', '01', '02', '8001']
    """
    rest = number << 1 if number >= 0 else ~(number << 1)
    encoded = bytearray()
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
