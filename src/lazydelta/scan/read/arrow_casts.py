"""Which Arrow types hold every value of another. Pure, and decided by the types alone.

A cast that these rules allow loses nothing and keeps the order of values, so a filter selects the
same rows before and after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["holds", "is_view", "plain_type", "view_type", "with_types"]

_FLOATS = {"halffloat": 11, "float": 24, "double": 53}
"""Bits of the integers that each holds exactly."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Decimal digits of the integers of a bit width."""
_VIEWS = {
    pa.string(): pa.string_view(),
    pa.large_string(): pa.string_view(),
    pa.binary(): pa.binary_view(),
    pa.large_binary(): pa.binary_view(),
}
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def view_type(kind: pa.DataType) -> pa.DataType:
    """Return the view type of strings and binaries; other types as they are."""
    return _VIEWS.get(kind, kind)


def with_types(schema: pa.Schema, kinds: Iterable[pa.DataType]) -> pa.Schema:
    """Return a schema with other types; names, nullability and metadata are kept."""
    pairs = zip(schema, kinds, strict=True)
    return pa.schema([field.with_type(kind) for field, kind in pairs], schema.metadata)


def is_view(kind: pa.DataType) -> bool:
    """Whether a type is a view."""
    return kind in _PLAIN


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, without dictionary encoding and views.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string_view()))
    DataType(string)
    """
    if pt.is_dictionary(kind):
        return plain_type(kind.value_type)
    return _PLAIN.get(kind, kind)


def holds(wide: pa.DataType, narrow: pa.DataType) -> bool:  # noqa: PLR0911 - one per family
    """Whether every value of `narrow` is a value of `wide`, in the same order.

    >>> holds(pa.int64(), pa.int32()), holds(pa.int32(), pa.int64())
    (True, False)
    """
    if wide == narrow or pt.is_null(narrow):
        return True
    if pt.is_nested(narrow):
        return _nested_holds(wide, narrow)
    if pt.is_signed_integer(narrow):
        return _holds_integers(wide, narrow.bit_width)
    if pt.is_floating(narrow):
        return pt.is_floating(wide) and _FLOATS[str(wide)] >= _FLOATS[str(narrow)]
    if pt.is_decimal(narrow):
        return pt.is_decimal(wide) and _holds_decimals(wide, narrow)
    if pt.is_date32(narrow):
        return pt.is_date64(wide) or (pt.is_timestamp(wide) and wide.tz is None)
    if pt.is_timestamp(narrow):
        is_time = pt.is_timestamp(wide) and wide.unit in (narrow.unit, "ns")
        return is_time and (wide.tz is None) == (narrow.tz is None)
    is_large = (pt.is_string(narrow) and pt.is_large_string(wide)) or (
        pt.is_binary(narrow) and pt.is_large_binary(wide)
    )
    return bool(is_large)


def _holds_integers(wide: pa.DataType, bits: int) -> bool:
    if pt.is_signed_integer(wide):
        return wide.bit_width >= bits
    if pt.is_floating(wide):
        return _FLOATS[str(wide)] >= bits - 1
    return pt.is_decimal(wide) and wide.precision - wide.scale >= _DIGITS[bits]


def _holds_decimals(wide: pa.DataType, narrow: pa.DataType) -> bool:
    whole, needed = wide.precision - wide.scale, narrow.precision - narrow.scale
    return wide.scale >= narrow.scale and whole >= needed


def _nested_holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    if pt.is_map(narrow):
        return (
            pt.is_map(wide)
            and holds(wide.key_type, narrow.key_type)
            and _field_holds(wide.item_field, narrow.item_field)
        )
    if pt.is_list(narrow):
        is_list = pt.is_list(wide) or pt.is_large_list(wide)
        return is_list and _field_holds(wide.value_field, narrow.value_field)
    if not pt.is_struct(narrow) or not pt.is_struct(wide):
        return False
    pairs = list(zip(wide, narrow, strict=False))
    same = wide.num_fields == narrow.num_fields and all(w.name == n.name for w, n in pairs)
    return same and all(_field_holds(w, n) for w, n in pairs)


def _field_holds(wide: pa.Field, narrow: pa.Field) -> bool:
    return (wide.nullable or not narrow.nullable) and holds(wide.type, narrow.type)
