"""Casts between strings and other types, as Spark's ANSI mode reads and writes them.

Each distinct value is converted once, by a Python function: Arrow's own parsers accept other
strings. A string that does not parse fails; so do the rarer forms of timestamps (region names as
zones) and numbers (hexadecimal, suffixes) that Spark accepts.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.expressions.kernels.distinct import per_distinct
from lazydelta.expressions.kernels.java_floats import java_double, java_float
from lazydelta.expressions.kernels.numbers import nearest_float, to_decimal
from lazydelta.schema import DecimalType, PrimitiveType
from lazydelta.schema.values import parse_value

if TYPE_CHECKING:
    from lazydelta.expressions.evaluation_result import Result
    from lazydelta.schema import DataType

__all__ = ["floats_to_decimals", "floats_to_strings", "parse_strings"]

_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_SPACE = "".join(map(chr, range(0x21))) + "\x7f"
"""White space and control characters, which Spark trims."""
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_SUFFIXED = re.compile(rf"(?:{_DECIMAL.pattern})[dDfF]")
_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME = re.compile(
    r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(\.[0-9]{0,9})?)?)?"
    r" ?(Z|UTC|[+-][0-9]{2}:[0-9]{2})?)?)?)?"
)
_STRING = PrimitiveType("string")


def parse_strings(values: pa.Array, kind: DataType) -> Result:
    """Return strings as another type."""
    return per_distinct(_parse, [values], kind, kind)


def _parse(string: str, kind: DataType) -> Any:
    trimmed = string.strip(_SPACE)
    if isinstance(kind, DecimalType):
        if not _DECIMAL.fullmatch(trimmed):
            raise ValueError(f"{string!r} is not a number")
        return to_decimal(Decimal(trimmed), kind)
    match str(kind):
        case "boolean":
            lowered = trimmed.lower()
            if lowered not in (*_TRUE, *_FALSE):
                raise ValueError(f"{string!r} is neither true nor false")
            return lowered in _TRUE
        case "date":
            return _parse_date(trimmed, kind)
        case "timestamp" | "timestamp_ntz":
            trimmed = _full_timestamp(trimmed)
        case "float" | "double":
            trimmed = trimmed[:-1] if _SUFFIXED.fullmatch(trimmed) else trimmed
    if not trimmed.isascii():
        raise ValueError(f"{string!r} is not a {kind}")
    value = parse_value(trimmed, kind)
    is_number = str(kind) == "float" and math.isfinite(value)
    return nearest_float(Decimal(trimmed), value) if is_number else value


def _parse_date(string: str, kind: DataType) -> Any:
    """Parse a date: the year, perhaps the month and the day; a time behind it is ignored."""
    match = _DATE.fullmatch(string)
    if match is None:
        raise ValueError(f"{string!r} is not a date")
    return parse_value(f"{match[1]}-{match[2] or 1}-{match[3] or 1}", kind)


def _full_timestamp(string: str) -> str:
    """Add the parts that a timestamp may leave out: month, day, minute, second."""
    match = _TIME.fullmatch(string)
    if match is None:
        raise ValueError(f"{string!r} is not a timestamp")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    clock = f"{hour or 0}:{int(minute or 0):02d}:{int(second or 0):02d}{fraction or ''}"
    return f"{year}-{month or 1}-{day or 1} {clock.rstrip('.')}{zone or ''}"


# --- floats ---------------------------------------------------------------------------------------


def floats_to_strings(values: pa.Array) -> Result:
    """Return floats as Java writes them."""
    is_float = pa.types.is_float32(values.type)
    return per_distinct(java_float if is_float else java_double, [values], _STRING)


def floats_to_decimals(values: pa.Array, kind: DecimalType) -> Result:
    """Return floats as decimals, through what Java writes; NaN and infinity are null."""
    return per_distinct(_to_decimal, [values], kind, kind)


def _to_decimal(number: float, kind: DecimalType) -> Decimal | None:
    if not math.isfinite(number):
        return None
    return to_decimal(Decimal(java_double(number)), kind)
