"""Type widening: the type changes that need no rewrite of data files.

The protocol lists them. Each change is recorded in the field's metadata, so that readers know
which types older files have and can refuse changes that they do not support.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.errors import SchemaError
from lazydelta.schema.schema_json import parse_type
from lazydelta.schema.types import ArrayType, DecimalType, MapType, PrimitiveType, StructType
from lazydelta.schema.values.literals import base_name

if TYPE_CHECKING:
    from lazydelta.schema.types import DataType, StructField

__all__ = ["TYPE_CHANGES", "can_read_as", "can_widen", "check_type_changes", "with_type_change"]

TYPE_CHANGES = "delta.typeChanges"
"""Metadata key of a field's type changes."""

_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_DECIMAL_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Integral digits that the protocol requires of a decimal to widen an integer type to it."""
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Most digits of an integer type; writers before the protocol's list required only these."""
_STRING_TYPES = ("string", "char", "varchar")


def can_widen(old: DataType, new: DataType) -> bool:
    """Whether the protocol allows a column to change from one type to the other.

    >>> can_widen(PrimitiveType("integer"), PrimitiveType("long"))
    True
    >>> can_widen(PrimitiveType("long"), DecimalType(20, 2))
    False
    """
    match old, new:
        case DecimalType(precision, scale), DecimalType(new_precision, new_scale):
            keeps_digits = new_precision - new_scale >= precision - scale
            return old != new and keeps_digits and new_scale >= scale
        case PrimitiveType(name), DecimalType(precision, scale):
            return name in _DECIMAL_DIGITS and precision - scale >= _DECIMAL_DIGITS[name]
        case PrimitiveType(name), PrimitiveType(wider):
            return wider in _WIDER.get(name, ())
        case _:
            return False


def can_read_as(old: DataType, new: DataType) -> bool:
    """Whether a primitive or decimal type can hold every value of another.

    >>> can_read_as(PrimitiveType("byte"), DecimalType(4, 1))
    True
    """
    if old == new or (base_name(old) in _STRING_TYPES and base_name(new) in _STRING_TYPES):
        return True
    if isinstance(old, PrimitiveType) and isinstance(new, DecimalType):
        digits = _INTEGER_DIGITS.get(old.name)
        return digits is not None and new.precision - new.scale >= digits
    return can_widen(old, new)


def check_type_changes(kind: DataType) -> None:
    """Validate the recorded type changes at every depth: older files must stay readable.

    Raises:
        SchemaError: A field changed to a type that cannot hold its old values.
    """
    match kind:
        case ArrayType(element):
            check_type_changes(element)
        case MapType(key, value):
            check_type_changes(key)
            check_type_changes(value)
        case StructType(fields):
            for field in fields:
                _check_field(field)
                check_type_changes(field.type)


def _check_field(field: StructField) -> None:
    where = f"{TYPE_CHANGES} of column {field.name!r}"
    try:
        raw = field.metadata.get(TYPE_CHANGES) or ()
        changes = [(change["fromType"], change["toType"]) for change in raw]
    except (TypeError, KeyError):
        raise SchemaError(f"{where} is not a list of type changes") from None
    for old, new in changes:
        if not can_read_as(parse_type(old, where=where), parse_type(new, where=where)):
            raise SchemaError(
                f"column {field.name!r} changed from {old} to {new}, which is not wider"
            )


def with_type_change(
    field: StructField, old: DataType, new: DataType, field_path: tuple[str, ...] = ()
) -> StructField:
    """Return the field with a recorded type change; its type itself does not change.

    Args:
        field: The nearest struct field.
        old: The type in existing files.
        new: The type of new files.
        field_path: The path from the field to an array `element`, a map `key` or a map `value`.
    """
    change: dict[str, Any] = {"fromType": str(old), "toType": str(new)}
    if field_path:
        change["fieldPath"] = ".".join(field_path)
    changes = [*field.metadata.get(TYPE_CHANGES, ()), change]
    return replace(field, metadata={**field.metadata, TYPE_CHANGES: changes})
