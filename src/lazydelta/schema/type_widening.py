"""Type widening: which types a column may change to without rewriting files. Pure.

The protocol lists the changes; any other loses values or readers. Each change is written down on
the field it concerns, so that readers know which types they may meet in older files, and can
refuse those that they do not know how to read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.errors import SchemaError
from lazydelta.schema.literals import family
from lazydelta.schema.schema_json import parse_type
from lazydelta.schema.types import ArrayType, DecimalType, MapType, PrimitiveType, StructType

if TYPE_CHECKING:
    from lazydelta.schema.types import DataType, StructField

__all__ = ["TYPE_CHANGES", "check_type_changes", "is_wider", "reads_as", "with_type_change"]

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
_MOST_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Digits that an integer has at most; writers before the protocol's list asked for no more."""
_TEXTS = ("string", "char", "varchar")


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


def reads_as(old: DataType, new: DataType) -> bool:
    """Whether every value of a type without parts is one of another: the same, or a wider one.

    >>> reads_as(PrimitiveType("byte"), DecimalType(4, 1))
    True
    """
    if old == new or (family(old) in _TEXTS and family(new) in _TEXTS):
        return True
    if isinstance(old, PrimitiveType) and isinstance(new, DecimalType):
        digits = _MOST_DIGITS.get(old.name)
        return digits is not None and new.precision - new.scale >= digits
    return is_wider(old, new)


def check_type_changes(kind: DataType) -> None:
    """Refuse a schema with a change, at any depth, after which older files cannot be read.

    Raises:
        SchemaError: A field went from one type to another that does not hold its values.
    """
    match kind:
        case ArrayType(element):
            check_type_changes(element)
        case MapType(key, value):
            check_type_changes(key)
            check_type_changes(value)
        case StructType(fields):
            for item in fields:
                _check_changes_of(item)
                check_type_changes(item.type)


def _check_changes_of(item: StructField) -> None:
    where = f"{TYPE_CHANGES} of column {item.name!r}"
    try:
        listed = item.metadata.get(TYPE_CHANGES) or ()
        changes = [(each["fromType"], each["toType"]) for each in listed]
    except (TypeError, KeyError):
        raise SchemaError(f"{where} is not a list of changes") from None
    for old, new in changes:
        if not reads_as(parse_type(old, where=where), parse_type(new, where=where)):
            raise SchemaError(f"column {item.name!r} went from {old} to {new}, which is not wider")


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
