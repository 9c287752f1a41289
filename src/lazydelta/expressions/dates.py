"""Date and timestamp kernels. Timestamps are in UTC; out of Arrow's calendar they become null."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import to_numpy
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "days",
    "format_dates",
    "four_digit_years",
    "in_calendar",
    "last_day",
    "wall_clock",
    "within",
]

_DAY_MICROS = 86_400_000_000
_FIRST_SORTED, _LAST_SORTED = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31
_FIRST_KNOWN, _LAST_KNOWN = -12_000_000, 11_000_000  # what the calendar of Arrow can hold
_LONG, _INT = PrimitiveType("long"), PrimitiveType("integer")
_STRFTIME = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def within(values: pa.Array, low: int, high: int) -> pa.Array:
    """Return longs with those outside `low` to `high` (both included) as null."""
    inside = pc.and_(
        pc.greater_equal(values, build_scalar(low, _LONG)),
        pc.less_equal(values, build_scalar(high, _LONG)),
    )
    return pc.if_else(inside, values, build_scalar(None, _LONG))


def days(values: pa.Array) -> pa.Array:
    """Return the days since 1970 of dates or timestamps, rounded down."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32()).cast(pa.int64())
    micros = values.view(pa.int64())
    filled = to_numpy(pc.coalesce(micros, build_scalar(0, _LONG)))
    found = np.floor_divide(filled, _DAY_MICROS)
    plain = pa.Array.from_buffers(pa.int64(), len(found), [None, pa.py_buffer(found)])
    return pc.if_else(micros.is_valid(), plain, build_scalar(None, _LONG))


def in_calendar(values: pa.Array, first: int = _FIRST_KNOWN, last: int = _LAST_KNOWN) -> pa.Array:
    """Return dates or timestamps with those outside two days as null."""
    known = within(days(values), first, last).is_valid()
    return pc.if_else(known, values, pa.nulls(1, values.type)[0])


def wall_clock(values: pa.Array) -> pa.Array:
    """Return timestamps without their zone; dates as they are."""
    is_timestamp = pa.types.is_timestamp(values.type)
    return values.view(pa.int64()).view(pa.timestamp("us")) if is_timestamp else values


def four_digit_years(values: pa.Array) -> pa.Array:
    """Return dates or timestamps; years without four digits become null: they would not sort."""
    return in_calendar(values, _FIRST_SORTED, _LAST_SORTED)


def format_dates(values: pa.Array, fields: Iterable[tuple[str, bool]]) -> pa.Array:
    """Format dates or timestamps, by fields of `_STRFTIME` (True) and literal strings (False)."""
    shown = wall_clock(four_digit_years(values))
    if pa.types.is_timestamp(shown.type):
        shown = pc.floor_temporal(shown, unit="second").cast(pa.timestamp("s"))
    shape = "".join(_STRFTIME[f] if known else f.replace("%", "%%") for f, known in fields)
    return pc.strftime(shown, format=shape)


def last_day(dates: pa.Array) -> pa.Array:
    """Return the last day of the month of each date."""
    first = pc.floor_temporal(dates, unit="month")
    inside_next = pc.add(first.view(pa.int32()), build_scalar(31, _INT)).view(pa.date32())
    start = pc.floor_temporal(inside_next, unit="month").view(pa.int32())
    return pc.subtract(start, build_scalar(1, _INT)).view(pa.date32())
