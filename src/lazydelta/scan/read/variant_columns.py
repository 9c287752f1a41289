"""Variant columns in the output: a struct of two binaries, `metadata` and `value`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from lazydelta._arrow import from_mask, to_mask
from lazydelta.formats import check_shredding, unshred
from lazydelta.schema import PrimitiveType, to_arrow_type
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["variant_converter"]

_TARGET = to_arrow_type(PrimitiveType("variant"))


def variant_converter(source: pa.StructType) -> Callable[[pa.Array], pa.Array] | None:
    """Return the converter of a file's variant column to two binaries; None if it has them.

    Raises:
        BadVariantError: The column is not a variant, or shredded into an unsupported type.
    """
    if source == _TARGET:
        return None
    check_shredding(source)
    if source.get_field_index("typed_value") >= 0:
        return _unshredded
    return lambda array: _rebuilt(array, array.field("value"))


def _unshredded(array: pa.StructArray) -> pa.StructArray:
    return _rebuilt(array, build_array(unshred(array), PrimitiveType("binary")))


def _rebuilt(array: pa.StructArray, value: pa.Array) -> pa.StructArray:
    children = [array.field("metadata"), value]
    children = [c if pt.is_binary(c.type) else c.cast(pa.binary()) for c in children]
    valid = None
    if array.null_count:
        valid = from_mask(to_mask(array.is_valid())).buffers()[1]
    return pa.Array.from_buffers(_TARGET, len(array), [valid], array.null_count, children=children)
