"""Type widening: which types a column may change to without rewriting files. Pure.

The protocol lists the changes; any other loses values or readers. Each change is written down on
the field it concerns, so that readers know which types they may meet in older files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.schema.types import DecimalType, PrimitiveType

if TYPE_CHECKING:
    from lazydelta.schema.types import DataType, StructField

__all__ = ["TYPE_CHANGES", "is_wider", "with_type_change"]

TYPE_CHANGES = "delta.typeChanges"
"""The metadata of a field that lists its former types."""

_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Digits that a decimal must have before the point to take an integer, says the protocol."""


def is_wider(old: DataType, new: DataType) -> bool:
    """Whether the protocol allows a column to go from one type to the other.

    >>> is_wider(PrimitiveType("integer"), PrimitiveType("long"))
    True
    >>> is_wider(PrimitiveType("long"), DecimalType(20, 2))
    False
    """
    match old, new:
        case DecimalType(precision, scale), DecimalType(new_precision, new_scale):
            digits = new_precision - new_scale >= precision - scale
            return old != new and digits and new_scale >= scale
        case PrimitiveType(name), DecimalType(precision, scale):
            return name in _DIGITS and precision - scale >= _DIGITS[name]
        case PrimitiveType(name), PrimitiveType(wider):
            return wider in _WIDER.get(name, ())
        case _:
            return False


def with_type_change(
    item: StructField, old: DataType, new: DataType, inside: tuple[str, ...] = ()
) -> StructField:
    """Return the field with a change of its type written down; its type is left as it is.

    Args:
        item: The nearest field of a struct.
        old: The type that files have.
        new: The type from now on.
        inside: From the field to the type, if that is an `element`, a `key` or a `value`.
    """
    change: dict[str, Any] = {"fromType": str(old), "toType": str(new)}
    if inside:
        change["fieldPath"] = ".".join(inside)
    changes = [*item.metadata.get(TYPE_CHANGES, ()), change]
    return replace(item, metadata={**item.metadata, TYPE_CHANGES: changes})
