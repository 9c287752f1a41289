"""Casts in formulas: which ones are computed, and how.

Only those whose result is the same in both of Spark's sets of rules, or which the ANSI rules
refuse (then the row fails). Left out, and so refused by name: floats to text and to decimals
(Java's shortest digits), binary to text, and anything nested.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, integers
from lazydelta.expressions.cells import Cells, attempted, with_nulls_failed
from lazydelta.expressions.compute import cast_values
from lazydelta.expressions.functions import is_float, is_text
from lazydelta.schema import (
    INTEGER_RANGES,
    DataType,
    DecimalType,
    PrimitiveType,
    build_scalar,
    to_arrow_type,
)

__all__ = ["cast_cells", "castable"]

_TIMES = ("date", "timestamp", "timestamp_ntz")
_MOST_SCALE_AS_TEXT = 6
"""Beyond it, one set of rules writes small decimals with an exponent."""
_TRAILING_ZEROS = r"\.?0*$"  # of a text that has six digits behind the point
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Of the years 1 to 9999, which have four digits and no sign."""
_TEXTUAL_TARGETS = frozenset({"boolean", "binary", "float", "double", *INTEGER_RANGES, *_TIMES})
_TARGETS = {
    "boolean": {"string", *INTEGER_RANGES},
    "float": {"double", *INTEGER_RANGES},
    "double": {"float", *INTEGER_RANGES},
    "date": {"string", "timestamp", "timestamp_ntz"},
    "timestamp": {"string", "date", "timestamp_ntz", "long"},
    "timestamp_ntz": {"string", "date", "timestamp"},
    **{name: {"boolean", "string", "float", "double", *INTEGER_RANGES} for name in INTEGER_RANGES},
}


def castable(source: DataType, target: DataType) -> bool:
    """Whether values of a type can be had as another in a formula."""
    name = "string" if is_text(target) else str(target)
    if is_text(source):
        return isinstance(target, DecimalType) or name in _TEXTUAL_TARGETS
    if isinstance(source, DecimalType):
        if name == "string":
            return source.scale <= _MOST_SCALE_AS_TEXT
        return isinstance(target, DecimalType) or is_float(target) or name in INTEGER_RANGES
    if isinstance(target, DecimalType):
        return str(source) in INTEGER_RANGES
    return name in _TARGETS.get(str(source), ())


def cast_cells(  # noqa: PLR0911 - one return per kind of cast
    values: pa.Array, source: DataType, target: DataType
) -> Cells:
    """Return values as another type; a row fails where its value has no place in it."""
    arrow = to_arrow_type(target)
    if is_text(source) and str(target) == "binary":
        return Cells(values.cast(arrow))
    if isinstance(source, DecimalType):
        return _from_decimal(values, source, target)
    if isinstance(target, DecimalType) and not is_text(source):
        return attempted(lambda whole: whole.cast(pa.decimal128(38, 0)).cast(arrow), values)
    if is_float(source):
        return _from_float(values, target)
    if str(source) == "boolean" and not is_text(target):
        return Cells(values.cast(arrow))
    if str(target) == "boolean" and str(source) in INTEGER_RANGES:
        return Cells(pc.not_equal(values, build_scalar(0, source)))
    if str(source).startswith("timestamp") and is_text(target):
        return _time_text(values)
    if str(target) == "long" and str(source) == "timestamp":
        return Cells(_seconds(values))
    return with_nulls_failed(cast_values(values, source, target), values)


def _from_decimal(values: pa.Array, source: DecimalType, target: DataType) -> Cells:
    arrow = to_arrow_type(target)
    if isinstance(target, DecimalType):
        if target.scale < source.scale:
            wide = values.cast(pa.decimal256(76, source.scale))
            values = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        return attempted(lambda rounded: rounded.cast(arrow), values)
    if is_float(target):  # by way of the text: that is rounded once, and correctly
        return Cells(values.cast(pa.string()).cast(pa.float64()).cast(arrow, safe=False))
    if is_text(target):
        return Cells(values.cast(pa.string()))
    whole = pc.trunc(values).cast(pa.decimal128(38, source.scale))
    return attempted(lambda cut: cut.cast(pa.int64()).cast(arrow), whole)


def _from_float(values: pa.Array, target: DataType) -> Cells:
    arrow = to_arrow_type(target)
    if is_float(target):
        return Cells(values.cast(arrow, safe=False))
    low, high = INTEGER_RANGES[str(target)]
    whole = pc.trunc(values.cast(pa.float64()))
    inside = pc.and_(
        pc.greater_equal(whole, build_scalar(float(low), PrimitiveType("double"))),
        # As a double, the greatest long is one more than it is: compared with that one.
        pc.less(whole, build_scalar(float(high + 1), PrimitiveType("double"))),
    )
    safe = pc.if_else(inside, whole, pa.nulls(1, pa.float64())[0])
    return with_nulls_failed(safe.cast(arrow), values)


def _seconds(values: pa.Array) -> pa.Array:
    micros = pc.coalesce(values.view(pa.int64()), build_scalar(0, PrimitiveType("long")))
    whole = from_numpy(np.floor_divide(integers(micros), 1_000_000))
    return pc.if_else(values.is_valid(), whole, build_scalar(None, PrimitiveType("long")))


def _time_text(values: pa.Array) -> Cells:
    """Write times as Spark does, in UTC: the fraction only as far as it goes."""
    micros = values.view(pa.int64())
    known = pc.and_(
        pc.greater_equal(micros, build_scalar(_FIRST_MICROS, PrimitiveType("long"))),
        pc.less_equal(micros, build_scalar(_LAST_MICROS, PrimitiveType("long"))),
    )
    wall = pc.if_else(known, micros, build_scalar(None, PrimitiveType("long")))
    shown = pc.strftime(wall.view(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
    text = pc.replace_substring_regex(shown, pattern=_TRAILING_ZEROS, replacement="")
    return with_nulls_failed(text, values)
