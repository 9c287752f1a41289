"""Render names and literals as Spark SQL, which the parser reads back unchanged."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from lazydelta.schema import DecimalType
from lazydelta.schema.values import format_date, format_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.schema import DataType

__all__ = ["RESERVED", "literal_sql", "quote_path", "quote_string"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\0": "\\0",
}
_TO_ESCAPE = {quote: re.compile(rf"[\\{quote}\n\r\t\0]") for quote in "'\""}

RESERVED = frozenset(
    {
        *("and", "or", "not", "in", "is", "null", "true", "false", "like", "between", "escape"),
        *("cast", "as", "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval", "div"),
        *("case", "when", "then", "else", "end", "rlike", "regexp", "distinct", "from"),
        *("current_date", "current_timestamp"),
    }
)
"""Keywords of the parser; a column of that name is quoted."""


def quote_path(path: Sequence[str]) -> str:
    """Return `a.b`; parts that are not plain identifiers are put in backticks."""
    return ".".join(_quote_name(part) for part in path)


def quote_string(string: str, quote: str = "'") -> str:
    """Return a string literal."""
    return quote + _TO_ESCAPE[quote].sub(lambda match: _ESCAPES[match[0]], string) + quote


def literal_sql(value: Any, kind: DataType) -> str:  # noqa: PLR0911 - one line per type
    """Return a literal of any type."""
    if value is None:
        return "NULL"
    if isinstance(kind, DecimalType):
        return f"{value:f}BD"
    match str(kind):
        case "boolean":
            return "TRUE" if value else "FALSE"
        case "float" | "double":
            return _float_sql(value, str(kind))
        case "date":
            return f"DATE '{format_date(value)}'"
        case "timestamp" | "timestamp_ntz" | "timestamp_nanos" | "timestamp_nanos_ntz" as name:
            return _timestamp_sql(value, name)
        case "binary":
            return f"X'{value.hex().upper()}'"
        case _ if isinstance(value, str):
            return quote_string(value)
        case _:
            return str(value)


def _quote_name(name: str) -> str:
    plain = _PLAIN.fullmatch(name) and name.lower() not in RESERVED
    return name if plain else f"`{name.replace('`', '``')}`"


def _timestamp_sql(value: int, name: str) -> str:
    zone = "" if name.endswith("ntz") else "Z"
    if "nanos" not in name:
        return f"{name.upper()} '{format_timestamp(value, separator=' ')}{zone}'"
    micros, rest = divmod(
        value, 1000
    )  # SQL has no literal of such a type, but strings compare with it
    return quote_string(f"{format_timestamp(micros, separator=' ')}{rest:03d}{zone}")


def _float_sql(value: float, kind: str) -> str:
    if math.isfinite(value):
        return f"{value!r}{'D' if kind == 'double' else 'F'}"
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS {kind.upper()})"
