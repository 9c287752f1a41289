"""Which functions and casts are monotonic, so that bounds of the argument bound the result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta.expressions.coercion import (
    DATE,
    STRING,
    TIMES,
    digits,
    is_exact_number,
    is_float,
    is_string,
    type_of,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal
from lazydelta.schema import DecimalType, PrimitiveType

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType

__all__ = ["monotonic_argument"]

_FORMAT_FIELD = re.compile(r"yyyy|MM|dd|HH|mm|ss|[A-Za-z]+")
_QUOTED = re.compile(r"'[^']*'")
_ORDERED_FIELDS = ["yyyy", "MM", "dd", "HH", "mm", "ss"]


def monotonic_argument(call: Call | Cast) -> Value | None:
    """Return the argument x if x <= y makes f(x) <= f(y) for all x and y, else None."""
    if isinstance(call, Cast):
        return call.value if _is_monotonic(type_of(call.value), call.type) else None
    if call.name in ("year", "trunc"):
        return call.args[0]
    if call.name == "date_trunc":
        return call.args[1]
    if call.name == "date_format":
        fields = _FORMAT_FIELD.findall(_QUOTED.sub("", str(_constant(call.args[1]))))
        return call.args[0] if fields == _ORDERED_FIELDS[: len(fields)] and fields else None
    if call.name == "substring" and all(isinstance(arg, Literal) for arg in call.args[1:]):
        return call.args[0] if _constant(call.args[1]) in (0, 1) else None
    return None


def _is_monotonic(source: DataType, target: DataType) -> bool:
    if str(source) in TIMES and str(target) in TIMES:
        return True
    if source == DATE and target == STRING:
        return True  # years that would not sort are NULL
    if is_exact_number(source) and is_float(target):
        return True  # rounding keeps the order
    if str(source) == "float" and str(target) == "double":
        return True
    if not (is_exact_number(source) and is_exact_number(target)):
        return is_string(source) and is_string(target)
    low, high = digits(Column((), source)), digits(Column((), target))
    fits = isinstance(source, PrimitiveType) or isinstance(target, DecimalType)
    return (low[0] <= high[0] if fits else low[0] < high[0]) and low[1] <= high[1]


def _constant(value: Value) -> object:
    return value.value if isinstance(value, Literal) else None
