"""Partition values: the strings of the log, and the typed values they stand for.

The protocol writes every partition value as text, with null as null or the empty text. Distinct
texts are parsed once and spread over the rows, because a batch has few of them.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import SchemaError
from lazydelta.schema.arrays import build_array, build_scalar
from lazydelta.schema.literals import (
    INTEGER_RANGES,
    family,
    format_date,
    format_timestamp,
    parse_value,
    to_days,
    to_micros,
)
from lazydelta.schema.types import DataType, DecimalType, PrimitiveType

__all__ = ["format_partition_value", "parse_partition_values", "unreadable_partition_values"]

_TEXTUAL = ("string", "char", "varchar")


def parse_partition_values(
    values: pa.Array, kind: DataType, *, on_error: Literal["raise", "null"] = "raise"
) -> pa.Array:
    """Return the typed values that the texts of one partition column stand for.

    >>> texts = pa.array(["7", "", None, "07"])
    >>> parse_partition_values(texts, PrimitiveType("integer")).to_pylist()
    [7, None, None, 7]

    Args:
        values: The texts; null and the empty text are both null.
        kind: The column's type.
        on_error: What to do with a text that is no value of the type.

    Raises:
        SchemaError: A text is no value of the type, and `on_error` is "raise".
    """
    coded = values if isinstance(values.type, pa.DictionaryType) else values.dictionary_encode()
    texts: list[str | None] = coded.dictionary.to_pylist()
    parsed = [_parse(text, kind, on_error) for text in texts]
    return build_array(parsed, kind).take(coded.indices)


def unreadable_partition_values(values: pa.Array, parsed: pa.Array) -> pa.BooleanArray:
    """Return where a text is there but no value came of it: nothing is known about such rows."""
    lengths = pc.binary_length(values)
    given = pc.not_equal(lengths, build_scalar(0, PrimitiveType("integer")))
    return pc.and_kleene(pc.and_kleene(given, values.is_valid()), parsed.is_null())


def format_partition_value(value: Any, kind: DataType) -> str | None:
    """Return the text that the log holds for one partition value; None is null.

    Timestamps are written in the ISO form with `Z`, which no reader can take for local time.
    A value that cannot be told from null (the empty text) becomes null, as the protocol asks.

    >>> format_partition_value(date(2026, 1, 31), PrimitiveType("date"))
    '2026-01-31'

    Raises:
        SchemaError: The value is not of the type, or the type cannot partition a table.
    """
    if value is None:
        return None
    text = _format(value, kind)
    try:
        parse_value(text, kind)
    except ValueError as error:
        raise SchemaError(f"{value!r} cannot be a partition value: {error}") from None
    return text or None


def _parse(text: str | None, kind: DataType, on_error: str) -> Any:
    if not text:
        return None
    try:
        return parse_value(text if _is_textual(kind) else text.strip(), kind)
    except ValueError as error:
        if on_error == "null":
            return None
        raise SchemaError(f"partition value of type {kind}: {error}") from None


def _is_textual(kind: DataType) -> bool:
    return family(kind) in (*_TEXTUAL, "binary")


def _format(value: Any, kind: DataType) -> str:  # noqa: PLR0911 - one line per type
    name = family(kind)
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
            return _float_text(float(value))
        case Decimal() | int() if isinstance(kind, DecimalType):
            return format(Decimal(value), "f")
        case str() if name in _TEXTUAL:
            return value
        case bytes() if name == "binary":
            return _binary_text(value)
        case _:
            raise SchemaError(f"{value!r} ({type(value).__name__}) is not a {kind} partition value")


def _float_text(value: float) -> str:
    text = repr(value)
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def _binary_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise SchemaError(f"{value!r} is not UTF-8, so the log cannot hold it") from None
