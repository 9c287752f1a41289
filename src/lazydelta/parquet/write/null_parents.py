"""Fill required fields of null structs with placeholder values.

Parquet writers need a value in every row of a required field, and other engines refuse a file
whose column is nullable where the table's is not. A null in a struct that is not null is kept: the
writer refuses it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import from_numpy

__all__ = ["fill_null_parents"]

_MAX_WIDTH = 16
"""Bytes of the widest fixed-width value, a decimal."""


def fill_null_parents(array: Any) -> pa.Array:
    """Return the array with placeholders for required fields of null structs."""
    kind = array.type
    if not _has_required_fields(kind):
        return array
    if pt.is_struct(kind):
        return _struct(array)
    own = array.buffers()[:2]
    inner = _entries(array) if pt.is_map(kind) else array.values
    children = [fill_null_parents(inner)]
    return pa.Array.from_buffers(kind, len(array), own, -1, array.offset, children)


def _struct(array: pa.StructArray) -> pa.StructArray:
    absent = array.is_null() if array.null_count else None
    parts = []
    for index, field in enumerate(array.type):
        part = array.field(index)
        if absent is not None and not field.nullable and part.null_count:
            part = pc.if_else(absent, _placeholder(field.type)[0], part)
        parts.append(fill_null_parents(part))
    return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=absent)


def _entries(array: pa.MapArray) -> pa.StructArray:
    fields = [array.type.key_field, array.type.item_field]
    return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)


def _has_required_fields(kind: pa.DataType) -> bool:
    """Whether a struct within the type has a required field."""
    if pt.is_map(kind):
        return any(map(_has_required_fields, (kind.key_type, kind.item_type)))
    if pt.is_list(kind):
        return _has_required_fields(kind.value_type)
    return pt.is_struct(kind) and any(
        not part.nullable or _has_required_fields(part.type) for part in kind
    )


def _placeholder(kind: pa.DataType) -> pa.Array:
    """Return one value of a type without any null."""
    if pt.is_struct(kind):
        return pa.StructArray.from_arrays(
            [_placeholder(part.type) for part in kind], fields=list(kind)
        )
    empty = from_numpy(np.zeros(2, np.int32))
    if pt.is_map(kind):
        keys, items = pa.nulls(0, kind.key_type), pa.nulls(0, kind.item_type)
        return pa.MapArray.from_arrays(empty, keys, items, type=kind)
    if pt.is_list(kind):
        return pa.ListArray.from_arrays(empty, pa.nulls(0, kind.value_type), type=kind)
    zeros = pa.py_buffer(bytes(_MAX_WIDTH))
    has_offsets = pt.is_string(kind) or pt.is_binary(kind)
    buffers = [None, zeros, zeros] if has_offsets else [None, zeros]
    return pa.Array.from_buffers(kind, 1, buffers)
