"""Names and constants as Spark's SQL writes them; `expressions.parse` reads them back unchanged."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from lazydelta.schema import DecimalType, format_date, format_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.schema import DataType

__all__ = ["RESERVED", "literal_text", "quote_path", "quote_text"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_TO_ESCAPE = re.compile(r"[\\'\n\r\t\0]")

RESERVED = frozenset(
    {
        *("and", "or", "not", "in", "is", "null", "true", "false", "like", "between", "escape"),
        *("cast", "as", "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval", "div"),
    }
)
"""Words that mean something to the parser; a column of that name is quoted."""


def quote_path(path: Sequence[str]) -> str:
    """Return `a.b`; parts that are no plain names are put in backticks."""
    return ".".join(_quote_name(part) for part in path)


def quote_text(text: str) -> str:
    """Return a string constant."""
    return f"'{_TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)}'"


def literal_text(value: Any, kind: DataType) -> str:  # noqa: PLR0911 - one line per type
    """Return a constant of any type, so that reading it gives the same type back."""
    if value is None:
        return "NULL"
    if isinstance(kind, DecimalType):
        return f"{value:f}BD"
    match str(kind):
        case "boolean":
            return "TRUE" if value else "FALSE"
        case "float" | "double":
            return _float_text(value, str(kind))
        case "date":
            return f"DATE '{format_date(value)}'"
        case "timestamp" | "timestamp_ntz" | "timestamp_nanos" | "timestamp_nanos_ntz" as name:
            return _time_text(value, name)
        case "binary":
            return f"X'{value.hex().upper()}'"
        case _ if isinstance(value, str):
            return quote_text(value)
        case _:
            return str(value)


def _quote_name(name: str) -> str:
    plain = _PLAIN.fullmatch(name) and name.lower() not in RESERVED
    return name if plain else f"`{name.replace('`', '``')}`"


def _time_text(value: int, name: str) -> str:
    zone = "" if name.endswith("ntz") else "Z"
    if "nanos" not in name:
        return f"{name.upper()} '{format_timestamp(value, separator=' ')}{zone}'"
    micros, rest = divmod(value, 1000)  # there is no constant of such a type, but text compares
    return quote_text(f"{format_timestamp(micros, separator=' ')}{rest:03d}{zone}")


def _float_text(value: float, kind: str) -> str:
    if math.isfinite(value):
        return f"{value!r}{'D' if kind == 'double' else 'F'}"
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS {kind.upper()})"
