"""Serialize and parse partition values.

The log stores every partition value as a string; null and the empty string are both null. Each
distinct string is parsed once, because a batch has few of them.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import SchemaError
from lazydelta.schema.types import DataType, DecimalType, PrimitiveType
from lazydelta.schema.values.arrays import build_array, build_scalar
from lazydelta.schema.values.literals import (
    INTEGER_RANGES,
    base_name,
    format_date,
    format_timestamp,
    parse_value,
    to_days,
    to_micros,
)

__all__ = ["format_partition_value", "parse_partition_values", "unreadable_partition_values"]

_STRING_TYPES = ("string", "char", "varchar")


def parse_partition_values(
    values: pa.Array, kind: DataType, *, on_error: Literal["raise", "null"] = "raise"
) -> pa.Array:
    """Parse the serialized values of one partition column.

    >>> strings = pa.array(["7", "", None, "07"])
    >>> parse_partition_values(strings, PrimitiveType("integer")).to_pylist()
    [7, None, None, 7]

    Args:
        values: The serialized values; null and the empty string are both null.
        kind: The column's type.
        on_error: Whether an invalid value raises or becomes null.

    Raises:
        SchemaError: A value is invalid for the type, and `on_error` is "raise".
    """
    encoded = values if isinstance(values.type, pa.DictionaryType) else values.dictionary_encode()
    distinct: list[str | None] = encoded.dictionary.to_pylist()
    parsed = [_parse(string, kind, on_error) for string in distinct]
    return build_array(parsed, kind).take(encoded.indices)


def unreadable_partition_values(values: pa.Array, parsed: pa.Array) -> pa.BooleanArray:
    """Return a mask of the invalid values: not null or empty, but parsed to null."""
    lengths = pc.binary_length(values)
    not_empty = pc.not_equal(lengths, build_scalar(0, PrimitiveType("integer")))
    return pc.and_kleene(pc.and_kleene(not_empty, values.is_valid()), parsed.is_null())


def format_partition_value(value: Any, kind: DataType) -> str | None:
    """Serialize one partition value; None is null.

    Timestamps use the ISO form with `Z`, which no reader mistakes for local time. The empty string
    becomes null, as the protocol requires.

    >>> format_partition_value(date(2026, 1, 31), PrimitiveType("date"))
    '2026-01-31'

    Raises:
        SchemaError: The value is not of the type, or the type cannot partition a table.
    """
    if value is None:
        return None
    string = _format(value, kind)
    try:
        parse_value(string, kind)
    except ValueError as error:
        raise SchemaError(f"{value!r} cannot be a partition value: {error}") from None
    return string or None


def _parse(string: str | None, kind: DataType, on_error: str) -> Any:
    if not string:
        return None
    try:
        return parse_value(string if _keeps_whitespace(kind) else string.strip(), kind)
    except ValueError as error:
        if on_error == "null":
            return None
        raise SchemaError(f"partition value of type {kind}: {error}") from None


def _keeps_whitespace(kind: DataType) -> bool:
    return base_name(kind) in (*_STRING_TYPES, "binary")


def _format(value: Any, kind: DataType) -> str:  # noqa: PLR0911 - one line per type
    name = base_name(kind)
    match value:
        case bool() if name == "boolean":
            return "true" if value else "false"
        case int() if name in INTEGER_RANGES and not isinstance(value, bool):
            return str(value)
        case datetime() if name == "timestamp":
            return format_timestamp(to_micros(value)) + "Z"
        case datetime() if name == "timestamp_ntz" and value.tzinfo is None:
            return format_timestamp(to_micros(value), separator=" ")
        case date() if name == "date" and not isinstance(value, datetime):
            return format_date(to_days(value))
        case float() | int() if name in ("float", "double"):
            return _format_float(float(value))
        case Decimal() | int() if isinstance(kind, DecimalType):
            return format(Decimal(value), "f")
        case str() if name in _STRING_TYPES:
            return value
        case bytes() if name == "binary":
            return _format_binary(value)
        case _:
            raise SchemaError(f"{value!r} ({type(value).__name__}) is not a {kind} partition value")


def _format_float(value: float) -> str:
    string = repr(value)
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(string, string)


def _format_binary(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise SchemaError(
            f"{value!r} is not UTF-8, so it cannot be a partition value of the log"
        ) from None
