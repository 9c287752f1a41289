"""Encode structs in Thrift's compact protocol."""

from __future__ import annotations

from tests.footers import BINARY, I32, I64, LIST, varint


def encoded(fields):
    """Return a struct as bytes.

    Args:
        fields: Number, type and value, in ascending order. The value of a struct is encoded
            already; the value of a list is its type and values.
    """
    parts, last = [], 0
    for number, kind, value in fields:
        parts += [bytes([(number - last) << 4 | kind]), _value(kind, value)]
        last = number
    return b"".join(parts) + b"\0"


def _value(kind, value):
    if kind in (I32, I64):
        return varint(value << 1 if value >= 0 else ~(value << 1))
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST:
        inner, values = value
        few = len(values) < 15
        head = bytes([min(len(values), 15) << 4 | inner]) + (b"" if few else varint(len(values)))
        return head + b"".join(_value(inner, each) for each in values)
    return value
