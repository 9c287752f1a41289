"""How the functions and casts of a predicate are computed on Arrow arrays.

A result that cannot be given (a text that is no date, a number that does not fit, a year that
does not sort) is null: unknown, never wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import integers
from lazydelta.errors import InternalError
from lazydelta.expressions.functions import DATE_UNITS, is_text
from lazydelta.schema import (
    INTEGER_RANGES,
    PrimitiveType,
    build_scalar,
    parse_partition_values,
    to_arrow_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.nodes import Call, Value
    from lazydelta.schema import DataType

__all__ = ["call_function", "cast_values"]

_DAY = 86_400_000_000
_FIRST_SORTED, _LAST_SORTED = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31
_FIRST_KNOWN, _LAST_KNOWN = -12_000_000, 11_000_000  # what the calendar of Arrow can hold
_LONG, _INT = PrimitiveType("long"), PrimitiveType("integer")
_FORMAT_TOKEN = re.compile(r"yyyy|MM|dd|HH|mm|ss|'[^']*'|.", re.DOTALL)
_STRFTIME = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def cast_values(  # noqa: PLR0911 - one return per kind of cast
    values: pa.Array, source: DataType, target: DataType
) -> pa.Array:
    """Return the values as another type; null where one does not fit."""
    arrow = to_arrow_type(target)
    if values.type == arrow or source == target:
        return values
    if is_text(source):
        return parse_partition_values(values, target, on_error="null")
    if str(target) == "date":
        return _days(values).cast(pa.int32()).view(pa.date32())
    if pa.types.is_date32(values.type) and pa.types.is_timestamp(arrow):
        days = values.view(pa.int32()).cast(pa.int64())
        near = _between(days, -(2**63) // _DAY + 1, 2**63 // _DAY - 1)
        return pc.multiply(near, build_scalar(_DAY, _LONG)).view(arrow)
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(arrow):
        return values.view(pa.int64()).view(arrow)
    if is_text(target):
        return _to_text(values)
    return _to_number(values, str(target), arrow)


def call_function(call: Call, argument: Callable[[Value], pa.Array]) -> pa.Array:
    """Compute a typed call.

    Args:
        call: The call, bound.
        argument: Gives the values of an argument.
    """
    settings = _SETTINGS.get(call.name, ())
    values = [argument(arg) for at, arg in enumerate(call.args) if at not in settings]
    constants = [getattr(arg, "value", None) for at, arg in enumerate(call.args) if at in settings]
    match call.name:
        case "+" | "-":
            return _sum(call, values)
        case "year" | "month" | "day" | "hour":
            return _FIELDS[call.name](_known(values[0])).cast(pa.int32())
        case "trunc" | "date_trunc":
            unit = DATE_UNITS[str(constants[0]).lower()]
            return pc.floor_temporal(_known(values[0]), unit=unit).cast(values[0].type)
        case "date_format":
            return _format(values[0], constants[0])
        case "substring":
            return _substring(values[0], *constants)
        case "length":
            return pc.utf8_length(values[0])
    raise InternalError(f"there is no meaning for the function {call.name}")


_SETTINGS = {"trunc": (1,), "date_trunc": (0,), "date_format": (1,), "substring": (1, 2)}
_FIELDS = {"year": pc.year, "month": pc.month, "day": pc.day, "hour": pc.hour}


def _sum(call: Call, values: list[pa.Array]) -> pa.Array:
    if call.type is None:
        raise InternalError(f"{call} is not bound")
    target = to_arrow_type(call.type)
    if len(call.args) == 1:
        return pc.negate(values[0]).cast(target)
    return (pc.add if call.name == "+" else pc.subtract)(*values).cast(target)


def _days(values: pa.Array) -> pa.Array:
    """Days since 1970 of times, rounded down; null stays null."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32()).cast(pa.int64())
    micros = values.view(pa.int64())
    filled = integers(pc.coalesce(micros, build_scalar(0, _LONG)))
    days = np.floor_divide(filled, _DAY)
    plain = pa.Array.from_buffers(pa.int64(), len(days), [None, pa.py_buffer(days)])
    return pc.if_else(micros.is_valid(), plain, build_scalar(None, _LONG))


def _between(values: pa.Array, low: int, high: int) -> pa.Array:
    """Keep the values between, both included; the others become null."""
    inside = pc.and_(
        pc.greater_equal(values, build_scalar(low, _LONG)),
        pc.less_equal(values, build_scalar(high, _LONG)),
    )
    return pc.if_else(inside, values, build_scalar(None, _LONG))


def _known(values: pa.Array, first: int = _FIRST_KNOWN, last: int = _LAST_KNOWN) -> pa.Array:
    """Keep the times between two days; the others become null."""
    known = _between(_days(values), first, last).is_valid()
    return pc.if_else(known, values, pa.nulls(1, values.type)[0])


def _format(values: pa.Array, pattern: Any) -> pa.Array:
    """Format times; years that do not have four digits become null, as they would not sort."""
    shown = _known(values, _FIRST_SORTED, _LAST_SORTED)
    if pa.types.is_timestamp(shown.type):
        wall = shown.view(pa.int64()).view(pa.timestamp("us"))
        shown = pc.floor_temporal(wall, unit="second").cast(pa.timestamp("s"))
    tokens = _FORMAT_TOKEN.findall(str(pattern))
    shape = "".join(_STRFTIME.get(t, t.strip("'").replace("%", "%%")) for t in tokens)
    return pc.strftime(shown, format=shape)


def _to_text(values: pa.Array) -> pa.Array:
    if pa.types.is_date32(values.type):
        return _format(values, "yyyy-MM-dd")
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        return values.cast(pa.string())
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return values.cast(pa.string(), safe=False)
    raise InternalError(f"cast of {values.type} to text")


def _to_number(values: pa.Array, name: str, arrow: pa.DataType) -> pa.Array:
    if name in INTEGER_RANGES:
        return _between(values.cast(pa.int64()), *INTEGER_RANGES[name]).cast(arrow)
    return values.cast(arrow, safe=not pa.types.is_floating(arrow))  # to a double means to round


def _substring(texts: pa.Array, position: Any, length: Any = None) -> pa.Array:
    """Cut as Spark does: positions count from 1, negative ones from the end."""
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(texts, start=0, stop=0)
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + length
    if stop is not None and start < 0 <= stop:
        stop = None
    return pc.utf8_slice_codeunits(texts, start=start, stop=stop)
