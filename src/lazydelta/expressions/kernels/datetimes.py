"""Kernels of dates and timestamps. Timestamps are in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_numpy
from lazydelta.expressions.dates import days, in_calendar, last_day, wall_clock, within
from lazydelta.expressions.datetime_patterns import DEFAULT_FORMAT
from lazydelta.expressions.evaluation_result import Result, attempt, nulls_failed
from lazydelta.expressions.functions import DATE_UNITS
from lazydelta.expressions.kernels.datetime_formats import format_times, parse_times
from lazydelta.expressions.kernels.distinct import per_distinct
from lazydelta.schema import PrimitiveType, to_arrow_type
from lazydelta.schema.values import build_scalar, parse_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.kernels.comparisons import Kernel
    from lazydelta.schema import DataType

__all__ = ["DATETIME_KERNELS", "add_interval"]

_LONG, _DATE = PrimitiveType("long"), PrimitiveType("date")
_SECOND = 1_000_000
_DAY_MICROS = 86_400 * _SECOND
_LAST_MICRO = 2**63 - 1
_UNIT_MICROS = {
    "week": 7 * _DAY_MICROS,
    "day": _DAY_MICROS,
    "hour": 3600 * _SECOND,
    "minute": 60 * _SECOND,
    "second": _SECOND,
}
_UNIT_MONTHS = {"year": 12, "month": 1}


def _field(kernel: Callable[..., pa.Array], **options: Any) -> Kernel:
    """Extract a field of dates or timestamps."""

    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        found = kernel(wall_clock(in_calendar(given[0])), **options)
        return nulls_failed(found.cast(pa.int32()), given[0])

    return run


def _trunc(given: list[pa.Array], constants: list[Any], kind: DataType) -> Result:
    unit = DATE_UNITS[str(constants[0]).lower()]
    found = pc.floor_temporal(in_calendar(given[0]), unit=unit)
    return nulls_failed(found.cast(to_arrow_type(kind)), given[0])


def _date_format(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    return nulls_failed(format_times(given[0], constants[0]), given[0])


def _shifted(kernel: Callable[..., pa.Array]) -> Kernel:
    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        dates, shift = given[0].view(pa.int32()), given[1].cast(pa.int32())
        return attempt(lambda a, b: kernel(a, b).view(pa.date32()), dates, shift)

    return run


def _datediff(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    difference = pc.subtract(*(days(values) for values in given))
    return attempt(lambda values: values.cast(pa.int32()), difference)


# --- months and intervals -------------------------------------------------------------------------


def _add_months(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    """Add months; the day of the month is at most the last one."""
    dates = to_numpy(pc.coalesce(days(given[0]), build_scalar(0, _LONG)))
    months = to_numpy(pc.coalesce(given[1].cast(pa.int64()), build_scalar(0, _LONG)))
    moved = _moved_days(dates, months)
    fits = (moved >= -(2**31)) & (moved < 2**31)
    found = from_numpy(np.where(fits, moved, 0).astype(np.int32)).view(pa.date32())
    null = pa.nulls(1, pa.date32())[0]
    for values in (from_mask(fits), *(values.is_valid() for values in given)):
        found = pc.if_else(values, found, null)
    return nulls_failed(found, *given)


def _moved_days(dates: np.ndarray, months: np.ndarray | int) -> np.ndarray:
    day = dates.astype("M8[D]")
    month = day.astype("M8[M]")
    in_month = (day - month.astype("M8[D]")).astype(np.int64)
    target = (month.astype(np.int64) + months).astype("M8[M]")
    first = target.astype("M8[D]").astype(np.int64)
    last = (target + 1).astype("M8[D]").astype(np.int64) - 1
    return np.minimum(first + in_month, last)


def add_interval(times: pa.Array, number: int, unit: str) -> Result:
    """Add a number of units to timestamps."""
    micros = times.view(pa.int64())
    if unit in _UNIT_MICROS:
        shift = number * _UNIT_MICROS[unit]
        if abs(shift) > _LAST_MICRO:
            return Result(times).failing(times.is_valid())
        step = build_scalar(shift, _LONG)
        return attempt(lambda part: pc.add_checked(part, step).view(times.type), micros)
    filled = to_numpy(pc.coalesce(micros, build_scalar(0, _LONG)))
    day = np.floor_divide(filled, _DAY_MICROS)
    moved = _moved_days(day, number * _UNIT_MONTHS[unit])
    fits = np.abs(moved) < 2**63 // _DAY_MICROS
    total = np.where(fits, moved, 0) * _DAY_MICROS + (filled - day * _DAY_MICROS)
    found = from_numpy(total).view(times.type)
    return Result(pc.if_else(times.is_valid(), found, pa.nulls(1, times.type)[0])).failing(
        pc.and_(from_mask(~fits), times.is_valid())
    )


# --- seconds since 1970 ---------------------------------------------------------------------------


def _unix_timestamp(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    times = parse_times(given[0], constants[0]) if constants else Result(given[0])
    micros = times.values.view(pa.int64())
    filled = to_numpy(pc.coalesce(micros, build_scalar(0, _LONG)))
    seconds = from_numpy((filled - np.fmod(filled, _SECOND)) // _SECOND)  # towards zero
    found = pc.if_else(micros.is_valid(), seconds, build_scalar(None, _LONG))
    return Result(found).failing(times.failed)


def _from_unixtime(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    (pattern,) = constants or [DEFAULT_FORMAT]
    most = _LAST_MICRO // _SECOND
    micros = pc.multiply(within(given[0], -most, most), build_scalar(_SECOND, _LONG))
    return nulls_failed(format_times(micros.view(pa.timestamp("us")), pattern), given[0])


def _parsed_date(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    times = parse_times(given[0], constants[0])
    return Result(days(times.values).cast(pa.int32()).view(pa.date32())).failing(times.failed)


def _make_date(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    def day(year: int, month: int, of_month: int) -> int:
        shown = f"{year:+05d}-{month:02d}-{of_month:02d}"
        found: int = parse_value(shown, _DATE)
        return found

    return per_distinct(day, given, _DATE)


DATETIME_KERNELS: dict[str, Kernel] = {
    "year": _field(pc.year),
    "quarter": _field(pc.quarter),
    "month": _field(pc.month),
    "day": _field(pc.day),
    "dayofweek": _field(pc.day_of_week, count_from_zero=False, week_start=7),
    "weekday": _field(pc.day_of_week, count_from_zero=True, week_start=1),
    "dayofyear": _field(pc.day_of_year),
    "weekofyear": _field(pc.iso_week),
    "hour": _field(pc.hour),
    "minute": _field(pc.minute),
    "second": _field(pc.second),
    "trunc": _trunc,
    "date_trunc": _trunc,
    "date_format": _date_format,
    "last_day": lambda given, _, __: attempt(last_day, given[0]),
    "date_add": _shifted(pc.add_checked),
    "date_sub": _shifted(pc.subtract_checked),
    "add_months": _add_months,
    "datediff": _datediff,
    "date": _parsed_date,
    "to_timestamp": lambda given, constants, _: parse_times(given[0], constants[0]),
    "unix_timestamp": _unix_timestamp,
    "from_unixtime": _from_unixtime,
    "make_date": _make_date,
}
