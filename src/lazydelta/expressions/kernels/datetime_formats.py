"""Format and parse dates and timestamps by `datetime_patterns`, in English and UTC."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions.dates import format_dates, four_digit_years, wall_clock
from lazydelta.expressions.datetime_patterns import format_fields
from lazydelta.expressions.kernels.distinct import per_distinct
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array, build_scalar, parse_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.evaluation_result import Result

__all__ = ["format_times", "parse_times"]

_STRING, _INTEGER, _LONG = (PrimitiveType(name) for name in ("string", "integer", "long"))
_TIMESTAMP = PrimitiveType("timestamp")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SIMPLE = frozenset({"yyyy", "MM", "dd", "HH", "mm", "ss"})
_MONTH_NUMBERS = {name[:3].lower(): at for at, name in enumerate(_MONTHS, 1)} | {
    name.lower(): at for at, name in enumerate(_MONTHS, 1)
}


# --- formatting -----------------------------------------------------------------------------------


def format_times(values: pa.Array, pattern: str) -> pa.Array:
    """Format dates or timestamps; those whose year does not have four digits become null."""
    fields = format_fields(pattern) or ()
    if all(field in _SIMPLE for field, is_letter in fields if is_letter):
        return format_dates(values, fields)
    shown = wall_clock(four_digit_years(values)).cast(pa.timestamp("us"))
    parts = [
        _FORMATTERS[field[0]](shown, field)
        if is_letter
        else pa.repeat(build_scalar(field, _STRING), len(shown))
        for field, is_letter in fields
    ]
    empty = build_scalar("", _STRING)
    joined = pc.binary_join_element_wise(*parts, empty, null_handling="emit_null")
    return pc.if_else(shown.is_valid(), joined, build_scalar(None, _STRING))


def _padded(numbers: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), width=width, padding="0")


def _numbered(kernel: Callable[..., pa.Array]) -> Callable[[pa.Array, str], pa.Array]:
    return lambda times, field: _padded(kernel(times), len(field))


def _year(times: pa.Array, field: str) -> pa.Array:
    if field != "yy":
        return _padded(pc.year(times), len(field))
    return pc.utf8_slice_codeunits(_padded(pc.year(times), 4), start=2)


def _named(numbers: pa.Array, names: tuple[str, ...], short: bool) -> pa.Array:
    shown = build_array([name[:3] if short else name for name in names], _STRING)
    return shown.take(numbers)


def _month(times: pa.Array, field: str) -> pa.Array:
    if len(field) < 3:
        return _padded(pc.month(times), len(field))
    first = pc.subtract(pc.month(times), build_scalar(1, _LONG))
    return _named(first, _MONTHS, len(field) == 3)


def _week_day(times: pa.Array, field: str) -> pa.Array:
    return _named(pc.day_of_week(times), _DAYS, len(field) < 4)


def _half_day_hour(times: pa.Array, field: str) -> pa.Array:
    hours = build_array([12, *range(1, 12)] * 2, _INTEGER)
    return _padded(hours.take(pc.hour(times)), len(field))


def _half_day(times: pa.Array, _: str) -> pa.Array:
    return build_array(["AM"] * 12 + ["PM"] * 12, _STRING).take(pc.hour(times))


def _fraction(times: pa.Array, field: str) -> pa.Array:
    micros = pc.add(
        pc.multiply(pc.millisecond(times), build_scalar(1000, _LONG)), pc.microsecond(times)
    )
    return pc.utf8_slice_codeunits(_padded(micros, 6), start=0, stop=len(field))


_FORMATTERS: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "y": _year,
    "M": _month,
    "d": _numbered(pc.day),
    "D": _numbered(pc.day_of_year),
    "H": _numbered(pc.hour),
    "h": _half_day_hour,
    "m": _numbered(pc.minute),
    "s": _numbered(pc.second),
    "S": _fraction,
    "a": _half_day,
    "E": _week_day,
}


# --- parsing: Arrow's strptime is more lenient than Java; each distinct string is parsed once


def parse_times(strings: pa.Array, pattern: str) -> Result:
    """Parse strings as timestamps; a string that does not match the pattern fails."""
    return per_distinct(lambda string: _parse(string, pattern), [strings], _TIMESTAMP)


def _parse(string: str, pattern: str) -> int:
    match = _parser(pattern).fullmatch(string)
    if match is None:
        raise ValueError(f"{string!r} does not match {pattern!r}")
    found = {letter: value for letter, value in match.groupdict().items() if value is not None}
    year = found.get("y", "1970")
    year = f"20{year}" if len(year) == 2 else year
    month = _MONTH_NUMBERS.get(found.get("M", "1").lower()) or int(found.get("M", "1"))
    hour = int(found.get("H", found.get("h", "0")))
    if "h" in found:
        if not 1 <= hour <= 12:
            raise ValueError(f"{string!r} has no hour between 1 and 12")
        hour = hour % 12 + 12 * (found["a"].lower() == "pm")
    clock = f"{hour:02d}:{int(found.get('m', 0)):02d}:{int(found.get('s', 0)):02d}"
    date = f"{year}-{month:02d}-{int(found.get('d', 1)):02d}"
    parsed: int = parse_value(f"{date} {clock}.{found.get('S', '0')}", _TIMESTAMP)
    return parsed


@lru_cache(maxsize=64)
def _parser(pattern: str) -> re.Pattern[str]:
    parts = []
    for field, is_letter in format_fields(pattern) or ():
        parts.append(_field_regex(field) if is_letter else re.escape(field))
    return re.compile("".join(parts), re.IGNORECASE)


def _field_regex(field: str) -> str:
    letter, width = field[0], len(field)
    if letter == "a":
        body = "am|pm"
    elif letter == "M" and width > 2:
        body = "|".join(name[:3] if width == 3 else name for name in _MONTHS)
    elif letter == "S":
        body = f"[0-9]{{1,{width}}}"
    else:
        body = "[0-9]{1,2}" if width == 1 else f"[0-9]{{{width}}}"
    return f"(?P<{letter}>{body})"
