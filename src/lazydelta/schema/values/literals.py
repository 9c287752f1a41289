"""Parse and format single values as strings: partition values, literals and some statistics.

Values have a lossless representation. Dates are days since 1970 and timestamps microseconds since
1970 (nanoseconds for the nanosecond types), so years beyond 9999 work. Decimals are `Decimal`,
binary is `bytes`.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from typing import TYPE_CHECKING, Any

from lazydelta.schema.types import DataType, DecimalType, PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "INTEGER_RANGES",
    "base_name",
    "format_date",
    "format_timestamp",
    "parse_value",
    "to_days",
    "to_micros",
]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic; zones are converted before
_DAY_MICROS = 86_400_000_000
_TICK_LIMIT = 2**63

_DATE = re.compile(r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})")
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|z|UTC|[+-]\d{2}:?\d{2}(?::?\d{2})?)?"
)
_INTEGER = re.compile(r"[+-]?\d{1,30}")
_FLOATS = {
    "nan": float("nan"),
    "inf": float("inf"),
    "+inf": float("inf"),
    "-inf": float("-inf"),
    "infinity": float("inf"),
    "+infinity": float("inf"),
    "-infinity": float("-inf"),
}
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

INTEGER_RANGES: dict[str, tuple[int, int]] = {
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}
"""The minimum and maximum of each integer type."""


def parse_value(string: str, kind: DataType) -> Any:
    """Parse a string as a value of a type, exactly.

    Raises:
        ValueError: The string is not a value of that type, or does not fit in it.
    """
    if isinstance(kind, DecimalType):
        return _parse_decimal(string, kind)
    if not isinstance(kind, PrimitiveType):
        raise ValueError(f"{kind} has no string form")  # noqa: TRY004 - callers catch ValueError
    if kind.name in INTEGER_RANGES:
        return _parse_integer(string, kind.name)
    parse = _PARSERS.get(base_name(kind))
    if parse is None:
        raise ValueError(f"values of type {kind} have no string form")
    return parse(string)


def base_name(kind: DataType) -> str:
    """Return the name of a primitive type without length and collation; empty for other types.

    >>> (
    ...     base_name(PrimitiveType("varchar(10)")),
    ...     base_name(PrimitiveType("string collate UTF8_LCASE")),
    ... )
    ('varchar', 'string')
    """
    if not isinstance(kind, PrimitiveType):
        return ""
    return kind.name.partition("(")[0].partition(" collate ")[0]


def to_days(value: date) -> int:
    """Return the days since 1970."""
    return value.toordinal() - 719_163


def to_micros(value: datetime) -> int:
    """Return the microseconds since 1970; a time with a zone is converted to UTC first."""
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH) // timedelta(microseconds=1)


def format_date(days: int) -> str:
    """Return `yyyy-MM-dd`; years beyond 9999 have a sign, as in Spark."""
    year, month, day = _date_from_days(days)
    sign = "" if 0 <= year <= 9999 else "+" if year > 0 else "-"
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def format_timestamp(micros: int, *, separator: str = "T") -> str:
    """Return the timestamp with six fractional digits and no zone."""
    days, rest = divmod(micros, _DAY_MICROS)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{format_date(days)}{separator}{hour:02d}:{minute:02d}:{second:02d}.{fraction:06d}"


def _parse_integer(string: str, name: str) -> int:
    if not _INTEGER.fullmatch(string):
        raise ValueError(f"{string!r} is not an integer")
    value, (minimum, maximum) = int(string), INTEGER_RANGES[name]
    if not minimum <= value <= maximum:
        raise ValueError(f"{string} does not fit in {name}")
    return value


def _parse_decimal(string: str, kind: DecimalType) -> Decimal:
    if not _FLOAT.fullmatch(string):
        raise ValueError(f"{string!r} is not a number")
    with localcontext(prec=76) as context:
        context.clear_flags()
        try:
            value = Decimal(string)
            rescaled = value.quantize(Decimal(1).scaleb(-kind.scale), context=context)
        except InvalidOperation:
            raise ValueError(f"{string} does not fit in {kind}") from None
    if rescaled != value or len(rescaled.as_tuple().digits) > kind.precision:
        raise ValueError(f"{string} does not fit in {kind}")
    return rescaled


def _parse_double(string: str) -> float:
    special = _FLOATS.get(string.lower())
    if special is not None:
        return special
    if not _FLOAT.fullmatch(string):
        raise ValueError(f"{string!r} is not a number")
    return float(string)


def _parse_boolean(string: str) -> bool:
    value = {"true": True, "false": False}.get(string.lower())
    if value is None:
        raise ValueError(f"{string!r} is neither true nor false")
    return value


def _parse_date(string: str) -> int:
    match = _DATE.fullmatch(string)
    if match is None:
        raise ValueError(f"{string!r} is not a date like 2026-01-31")
    return _days_since_epoch(int(match[1]), int(match[2]), int(match[3]))


def _parse_timestamp(string: str, digits: int = 6) -> int:
    """Parse a timestamp in units of 10**-digits seconds; finer digits are truncated.

    A timestamp without a zone is UTC.
    """
    match = _TIMESTAMP.fullmatch(string)
    if match is None:
        raise ValueError(f"{string!r} is not a timestamp like 2026-01-31 23:59:59.999999")
    days = _days_since_epoch(int(match[1]), int(match[2]), int(match[3]))
    hour, minute, second = (int(match[i] or 0) for i in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{string!r} has an invalid time of day")
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - _offset_seconds(match[8])
    ticks = seconds * 10**digits + int((match[7] or "0").ljust(digits, "0")[:digits])
    if not -_TICK_LIMIT <= ticks < _TICK_LIMIT:
        raise ValueError(f"{string!r} is out of range")
    return ticks


def _without_zone(string: str) -> str:
    """Drop the zone of a timestamp string, without applying it."""
    match = _TIMESTAMP.fullmatch(string)
    return string[: match.start(8)].rstrip() if match and match[8] else string


def _offset_seconds(zone: str | None) -> int:
    if not zone or zone in "Zz" or zone == "UTC":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return -seconds if zone[0] == "-" else seconds


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Return the days since 1970 in the proleptic Gregorian calendar, for any year."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        raise ValueError(f"{year}-{month}-{day} is not a calendar date")
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400
    return before * 365 + leaps + sum(lengths[: month - 1]) + day - 1 - 719_162


def _date_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day; 400-year cycles are split off to stay in the range of `date`."""
    cycles, rest = divmod(days + 719_162, 146_097)
    in_cycle = date.fromordinal(rest + 1)
    return in_cycle.year + 400 * cycles, in_cycle.month, in_cycle.day


_PARSERS: dict[str, Callable[[str], Any]] = {
    "float": _parse_double,
    "double": _parse_double,
    "boolean": _parse_boolean,
    "string": str,
    "char": str,
    "varchar": str,
    "binary": str.encode,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": lambda string: _parse_timestamp(_without_zone(string)),
    "timestamp_nanos": lambda string: _parse_timestamp(string, 9),
    "timestamp_nanos_ntz": lambda string: _parse_timestamp(_without_zone(string), 9),
}
