"""Variants as the table shows them: `struct<metadata, value>` of binaries, put together again.

A writer may shred a variant: values of an expected type lie in `typed_value`, the rest in `value`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lazydelta.schema import PrimitiveType, to_arrow_type

__all__ = ["variant_converter"]

_TARGET = to_arrow_type(PrimitiveType("variant"))


def variant_converter(source: pa.StructType) -> Callable[[pa.Array], pa.Array] | None:
    """Return what brings a variant column of a file to its two binaries."""
    if source == _TARGET:
        return None
    return _unshredded


def _unshredded(array: pa.StructArray) -> pa.StructArray:
    children = [array.field("metadata").cast(pa.binary()), array.field("value").cast(pa.binary())]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(_TARGET), mask=mask)
