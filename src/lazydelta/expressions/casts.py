"""Casts, as Spark's ANSI mode computes them: where it refuses a value, the row fails.

`coercion.castable` has the list of supported casts; `string_casts` reads and writes strings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.expressions.coercion import (
    BINARY,
    BOOLEAN,
    INTEGER,
    LONG,
    TIMESTAMP,
    is_exact_number,
    is_float,
    is_string,
)
from lazydelta.expressions.dates import days, format_dates, within
from lazydelta.expressions.evaluation_result import Result, attempt, nulls_failed
from lazydelta.expressions.kernels.distinct import per_distinct
from lazydelta.expressions.string_casts import (
    floats_to_decimals,
    floats_to_strings,
    parse_strings,
)
from lazydelta.schema import DataType, DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.values import INTEGER_RANGES, build_scalar

__all__ = ["cast"]

_DAY_MICROS = 86_400_000_000
_TRAILING_ZEROS = r"\.?0*$"  # of a string that has six digits behind the point
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Of the years 1 to 9999, which have four digits and no sign."""
_ISO_DATE = (("yyyy", True), ("-", False), ("MM", True), ("-", False), ("dd", True))
_PLAIN_SCALE = 6
"""Arrow writes smaller decimals with an exponent."""
_LAST_SECOND = (2**63 - 1) // 1_000_000
_LONG, _DOUBLE = PrimitiveType("long"), PrimitiveType("double")
_MICROS = build_scalar(1e6, _DOUBLE)


def cast(values: pa.Array, source: DataType, target: DataType) -> Result:  # noqa: PLR0911
    """Return values as another type; a row fails where its value does not fit."""
    arrow = to_arrow_type(target)
    if values.type == arrow or source == target:
        return Result(values)
    if is_string(source):
        return Result(values.cast(arrow)) if target == BINARY else parse_strings(values, target)
    if isinstance(source, DecimalType):
        return _from_decimal(values, source, target)
    if is_float(source):
        return _from_float(values, target)
    if source == BINARY:
        return attempt(lambda raw: raw.cast(pa.string()), values)
    if source == BOOLEAN:
        if isinstance(target, DecimalType):
            return _from_integer(values.cast(pa.int32()), INTEGER, target)
        if is_float(target):
            return Result(values.cast(pa.int8()).cast(arrow))
        return Result(values.cast(pa.string() if is_string(target) else arrow))
    if is_exact_number(source):
        return _from_integer(values, source, target)
    return _from_time(values, target)


def _from_integer(values: pa.Array, source: DataType, target: DataType) -> Result:
    arrow = to_arrow_type(target)
    if isinstance(target, DecimalType):
        return attempt(lambda whole: whole.cast(pa.decimal128(38, 0)).cast(arrow), values)
    if str(target) == "boolean":
        return Result(pc.not_equal(values, build_scalar(0, source)))
    if is_string(target):
        return Result(values.cast(pa.string()))
    if is_float(target):
        return Result(values.cast(arrow, safe=False))  # rounds
    if target == TIMESTAMP:
        return Result(_from_seconds(values.cast(pa.int64())).view(arrow))
    fitting = within(values.cast(pa.int64()), *INTEGER_RANGES[str(target)])
    return nulls_failed(fitting.cast(arrow), values)


def _from_decimal(values: pa.Array, source: DecimalType, target: DataType) -> Result:
    arrow = to_arrow_type(target)
    if isinstance(target, DecimalType):
        if target.scale < source.scale:
            wide = values.cast(pa.decimal256(76, source.scale))
            values = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        return attempt(lambda rounded: rounded.cast(arrow), values)
    if is_float(target):  # through the string, which rounds once and correctly
        return Result(values.cast(pa.string()).cast(pa.float64()).cast(arrow, safe=False))
    if is_string(target):
        if source.scale <= _PLAIN_SCALE:
            return Result(values.cast(pa.string()))
        return per_distinct(lambda number: format(number, "f"), [values], target)
    if target == BOOLEAN:
        zero = build_scalar(0, _LONG).cast(pa.decimal128(38, 0))
        return Result(pc.not_equal(values, zero.cast(values.type)))
    whole = pc.trunc(values.cast(pa.decimal256(76, source.scale)))  # 0.5 has no place for a 0
    return attempt(lambda cut: cut.cast(pa.int64()).cast(arrow), whole)


def _from_float(values: pa.Array, target: DataType) -> Result:
    arrow = to_arrow_type(target)
    if is_float(target):
        return Result(values.cast(arrow, safe=False))
    if is_string(target):
        return floats_to_strings(values)
    if isinstance(target, DecimalType):
        return floats_to_decimals(values, target)
    if target == BOOLEAN:
        return Result(pc.not_equal(values, build_scalar(0.0, _DOUBLE).cast(values.type)))
    low, high = INTEGER_RANGES[str(target)]
    whole = pc.trunc(values.cast(pa.float64()))
    inside = pc.and_(
        pc.greater_equal(whole, build_scalar(float(low), _DOUBLE)),
        # The greatest long is not a double; the next integer is.
        pc.less(whole, build_scalar(float(high + 1), _DOUBLE)),
    )
    safe = pc.if_else(inside, whole, pa.nulls(1, pa.float64())[0])
    return nulls_failed(safe.cast(arrow), values)


def _from_time(values: pa.Array, target: DataType) -> Result:  # noqa: PLR0911 - one per type
    """Cast dates and timestamps."""
    arrow = to_arrow_type(target)
    if str(target) == "date":
        return Result(days(values).cast(pa.int32()).view(pa.date32()))
    if pa.types.is_date32(values.type):
        if is_string(target):
            return nulls_failed(format_dates(values, _ISO_DATE), values)
        near = within(days(values), -(2**63) // _DAY_MICROS + 1, 2**63 // _DAY_MICROS - 1)
        micros = pc.multiply(near, build_scalar(_DAY_MICROS, _LONG))
        return nulls_failed(micros.view(arrow), values)
    if is_string(target):
        return _timestamp_strings(values)
    if str(target) in ("long", "integer"):
        seconds = _seconds(values)
        return Result(seconds) if target == LONG else _from_integer(seconds, LONG, target)
    if str(target) == "double":
        seconds = pc.divide(values.view(pa.int64()).cast(pa.float64(), safe=False), _MICROS)
        return Result(seconds)
    return Result(values.view(pa.int64()).view(arrow))


def _from_seconds(values: pa.Array) -> pa.Array:
    """Return seconds as microseconds; as in Spark, too many of them are the last ones possible."""
    inside = within(values, -_LAST_SECOND, _LAST_SECOND)
    micros = pc.multiply(inside, build_scalar(1_000_000, _LONG))
    low, high = (build_scalar(limit, _LONG) for limit in INTEGER_RANGES["long"])
    beyond = pc.if_else(pc.less(values, build_scalar(0, _LONG)), low, high)
    return pc.coalesce(micros, beyond)


def _seconds(values: pa.Array) -> pa.Array:
    micros = pc.coalesce(values.view(pa.int64()), build_scalar(0, _LONG))
    whole = from_numpy(np.floor_divide(to_numpy(micros), 1_000_000))
    return pc.if_else(values.is_valid(), whole, build_scalar(None, _LONG))


def _timestamp_strings(values: pa.Array) -> Result:
    """Format timestamps as Spark does, in UTC, without trailing zeros of the fraction."""
    known = within(values.view(pa.int64()), _FIRST_MICROS, _LAST_MICROS)
    shown = pc.strftime(known.view(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
    return nulls_failed(
        pc.replace_substring_regex(shown, pattern=_TRAILING_ZEROS, replacement=""), values
    )
