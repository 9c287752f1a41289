"""Single values as text: what partition values, literals and odd statistics look like.

Values are held in the form that never loses anything: dates are days and timestamps microseconds
since 1970 (so years beyond 9999 work; nanoseconds where the type counts them), decimals are
`Decimal`, binary is `bytes`.
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
    "family",
    "format_date",
    "format_timestamp",
    "parse_value",
    "to_days",
    "to_micros",
]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic, zones are handled apart
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
_LARGEST_FLOAT = float.fromhex("0x1.fffffep+127")

INTEGER_RANGES: dict[str, tuple[int, int]] = {
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}
"""The least and the greatest value of each integer type."""


def parse_value(text: str, kind: DataType) -> Any:
    """Return the value that `text` spells, exactly.

    Raises:
        ValueError: The text is not a value of that type, or does not fit in it.
    """
    if isinstance(kind, DecimalType):
        return _decimal(text, kind)
    if not isinstance(kind, PrimitiveType):
        raise ValueError(f"a {kind} has no text form")  # noqa: TRY004 - callers catch ValueError
    if kind.name in INTEGER_RANGES:
        return _integer(text, kind.name)
    read = _READERS.get(family(kind))
    if read is None:
        raise ValueError(f"values of type {kind} have no text form")
    return read(text)


def family(kind: DataType) -> str:
    """Return a type's name without its length or collation; empty for one that has parts.

    >>> family(PrimitiveType("varchar(10)")), family(PrimitiveType("string collate UTF8_LCASE"))
    ('varchar', 'string')
    """
    if not isinstance(kind, PrimitiveType):
        return ""
    return kind.name.partition("(")[0].partition(" collate ")[0]


def to_days(value: date) -> int:
    """Return the days since 1970 of a calendar date."""
    return value.toordinal() - 719_163


def to_micros(value: datetime) -> int:
    """Return the microseconds since 1970; a zoned time is turned to UTC first."""
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH) // timedelta(microseconds=1)


def format_date(days: int) -> str:
    """Return `yyyy-MM-dd`; years beyond 9999 have a sign, as Spark writes them."""
    year, month, day = _civil(days)
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{'+' if year > 0 else '-'}{abs(year):04d}"
    return f"{shown}-{month:02d}-{day:02d}"


def format_timestamp(micros: int, *, separator: str = "T") -> str:
    """Return the time with six digits of fraction and without a zone."""
    days, rest = divmod(micros, _DAY_MICROS)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{format_date(days)}{separator}{hour:02d}:{minute:02d}:{second:02d}.{fraction:06d}"


def _integer(text: str, name: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    value, (least, greatest) = int(text), INTEGER_RANGES[name]
    if not least <= value <= greatest:
        raise ValueError(f"{text} does not fit in {name}")
    return value


def _decimal(text: str, kind: DecimalType) -> Decimal:
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    with localcontext(prec=76) as context:
        context.clear_flags()
        try:
            value = Decimal(text)
            fitted = value.quantize(Decimal(1).scaleb(-kind.scale), context=context)
        except InvalidOperation:
            raise ValueError(f"{text} does not fit in {kind}") from None
    if fitted != value or len(fitted.as_tuple().digits) > kind.precision:
        raise ValueError(f"{text} does not fit in {kind}")
    return fitted


def _double(text: str) -> float:
    named = _FLOATS.get(text.lower())
    if named is not None:
        return named
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _boolean(text: str) -> bool:
    value = {"true": True, "false": False}.get(text.lower())
    if value is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return value


def _days(text: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date like 2026-01-31")
    return _days_of(int(match[1]), int(match[2]), int(match[3]))


def _micros(text: str) -> int:
    """Read a time, zoned or not; one without a zone is taken as UTC."""
    return _ticks(text, 6)


def _nanos(text: str) -> int:
    """Read a time to the nanosecond."""
    return _ticks(text, 9)


def _ticks(text: str, digits: int) -> int:
    """Read a time in units of so many digits of a second; what is finer is cut off."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time like 2026-01-31 23:59:59.999999")
    days = _days_of(int(match[1]), int(match[2]), int(match[3]))
    hour, minute, second = (int(match[i] or 0) for i in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} has no such time of day")
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - _offset_seconds(match[8])
    ticks = seconds * 10**digits + int((match[7] or "0").ljust(digits, "0")[:digits])
    if not -_TICK_LIMIT <= ticks < _TICK_LIMIT:
        raise ValueError(f"{text!r} is out of range")
    return ticks


def _wall(text: str) -> str:
    """Return a time without its zone, which is dropped and never applied."""
    match = _TIMESTAMP.fullmatch(text)
    return text[: match.start(8)].rstrip() if match and match[8] else text


def _offset_seconds(zone: str | None) -> int:
    if not zone or zone in "Zz" or zone == "UTC":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return -seconds if zone[0] == "-" else seconds


def _days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 in the proleptic Gregorian calendar, for any year."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        raise ValueError(f"{year}-{month}-{day} is not a day of the calendar")
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400
    return before * 365 + leaps + sum(lengths[: month - 1]) + day - 1 - 719_162


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day number: whole 400-year cycles apart, `date` does the rest."""
    cycles, rest = divmod(days + 719_162, 146_097)
    part = date.fromordinal(rest + 1)
    return part.year + 400 * cycles, part.month, part.day


_READERS: dict[str, Callable[[str], Any]] = {
    "float": _double,
    "double": _double,
    "boolean": _boolean,
    "string": str,
    "char": str,
    "varchar": str,
    "binary": str.encode,
    "date": _days,
    "timestamp": _micros,
    "timestamp_ntz": lambda text: _micros(_wall(text)),
    "timestamp_nanos": _nanos,
    "timestamp_nanos_ntz": lambda text: _nanos(_wall(text)),
}
