"""Texts as strings, however the writer of a Parquet file called them.

A file may be of a time before texts were told from bytes, and a writer that is made of Arrow says
in it that they are views, or a dictionary: few functions of Arrow take those. Pure.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["with_string_types"]

_SAME = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_BYTES = (pa.binary(), pa.large_binary())


def with_string_types(kind: pa.DataType, values: frozenset[str]) -> pa.DataType:
    """Return a type with strings for all that is a text; the same one if it has them.

    >>> with_string_types(
    ...     pa.struct([("path", pa.string_view()), ("size", pa.int64())]), frozenset()
    ... )
    StructType(struct<path: string, size: int64>)

    Args:
        kind: A type of Arrow, nested or not.
        values: Fields that have values of any type: what is bytes there may well be bytes.
    """
    return _plain(kind, values, bytes_are_text=True)


def _plain(kind: pa.DataType, values: frozenset[str], *, bytes_are_text: bool) -> pa.DataType:
    if pt.is_struct(kind):
        parts = [
            part.with_type(
                _plain(part.type, values, bytes_are_text=bytes_are_text and part.name not in values)
            )
            for part in kind
        ]
        return kind if parts == list(kind) else pa.struct(parts)
    if pt.is_map(kind):
        key, item = kind.key_field, kind.item_field
        parts = [
            part.with_type(_plain(part.type, values, bytes_are_text=bytes_are_text))
            for part in (key, item)
        ]
        return kind if parts == [key, item] else pa.map_(*parts)
    if pt.is_list(kind):
        item = kind.value_field
        inner = item.with_type(_plain(item.type, values, bytes_are_text=bytes_are_text))
        return kind if inner == item else pa.list_(inner)
    if pt.is_dictionary(kind):
        return _plain(kind.value_type, values, bytes_are_text=bytes_are_text)
    found = _SAME.get(kind, kind)
    return pa.string() if bytes_are_text and found in _BYTES else found
