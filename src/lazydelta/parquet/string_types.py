"""String types of a Parquet file, normalized.

Old files do not annotate strings, so they read as binary. Arrow's writers store views and
dictionaries, which few of Arrow's functions accept.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["with_string_types"]

_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_BINARY = (pa.binary(), pa.large_binary())


def with_string_types(kind: pa.DataType, values: frozenset[str]) -> pa.DataType:
    """Return a type with plain strings for binaries, views and dictionaries; itself without any.

    >>> with_string_types(
    ...     pa.struct([("path", pa.string_view()), ("size", pa.int64())]), frozenset()
    ... )
    StructType(struct<path: string, size: int64>)

    Args:
        kind: An Arrow type, nested or not.
        values: Names of fields whose values may be binary: below them, binaries are kept.
    """
    return _normalized(kind, values, binary_is_string=True)


def _normalized(
    kind: pa.DataType, values: frozenset[str], *, binary_is_string: bool
) -> pa.DataType:
    if pt.is_struct(kind):
        parts = [
            part.with_type(
                _normalized(
                    part.type,
                    values,
                    binary_is_string=binary_is_string and part.name not in values,
                )
            )
            for part in kind
        ]
        return kind if parts == list(kind) else pa.struct(parts)
    if pt.is_map(kind):
        key, item = kind.key_field, kind.item_field
        parts = [
            part.with_type(_normalized(part.type, values, binary_is_string=binary_is_string))
            for part in (key, item)
        ]
        return kind if parts == [key, item] else pa.map_(*parts)
    if pt.is_list(kind):
        item = kind.value_field
        inner = item.with_type(_normalized(item.type, values, binary_is_string=binary_is_string))
        return kind if inner == item else pa.list_(inner)
    if pt.is_dictionary(kind):
        return _normalized(kind.value_type, values, binary_is_string=binary_is_string)
    plain = _PLAIN.get(kind, kind)
    return pa.string() if binary_is_string and plain in _BINARY else plain
