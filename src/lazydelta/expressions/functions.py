"""Signatures of the SQL functions, and which of them are monotonic.

A function is supported if its result is Spark's for every value, or if the row fails where
Spark's ANSI and legacy modes differ. Timestamps are in UTC. `kernels` computes the functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions.coercion import (
    BOOLEAN,
    DATE,
    INTEGER,
    STRING,
    TIMES,
    TIMESTAMP,
    digits,
    is_exact_number,
    is_float,
    is_number,
    is_string,
    type_of,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal
from lazydelta.schema import DataType, DecimalType, PrimitiveType
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.nodes.base import Value

__all__ = [
    "ALIASES",
    "CHOICES",
    "DATE_UNITS",
    "FUNCTIONS",
    "SPECIAL_FORMS",
    "Signature",
    "constant_positions",
    "monotonic_argument",
    "of_family",
]

DATE_UNITS = {
    "year": "year",
    "yyyy": "year",
    "yy": "year",
    "quarter": "quarter",
    "month": "month",
    "mon": "month",
    "mm": "month",
    "week": "week",
    "day": "day",
    "dd": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
"""Names of the units that timestamps can be truncated to."""

ALIASES = {
    "||": "concat",
    "btrim": "trim",
    "char_length": "length",
    "character_length": "length",
    "dayofmonth": "day",
    "ifnull": "coalesce",
    "lcase": "lower",
    "len": "length",
    "negative": "-",
    "nvl": "coalesce",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "substr": "substring",
    "to_date": "date",
    "ucase": "upper",
}
CHOICES = {"coalesce": (1, None), "greatest": (2, None), "least": (2, None), "nullif": (2, 2)}
"""Functions of values of one type, with the least and the greatest number of arguments."""
SPECIAL_FORMS = frozenset({"concat", "date", "if", "isnotnull", "isnull", "startswith"})
"""Functions that binding rewrites, or that take any number of arguments."""

_FORMAT = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|'[^']*'|[^A-Za-z'])*")
_FORMAT_FIELD = re.compile(r"yyyy|MM|dd|HH|mm|ss")
_ORDERED_FIELDS = ["yyyy", "MM", "dd", "HH", "mm", "ss"]
_DATE_ONLY_UNITS = frozenset({"year", "quarter", "month", "week"})
_MAX_POSITION = 2**31 - 1
_ANY_STRING = build_array([""], STRING)
# Java and RE2 read these alike: plain characters, classes of them, groups, repetitions, anchors.
_REGEX = re.compile(
    r"(?:[^\\\[\](){}?*+|^$.]|\\[dDwWsS.\\|(){}\[\]*+?^$/-]|\[\^?(?:[^\\\[\]&]|\\[dws.\\\]\[^-])+\]"
    r"|\((?!\?)|\(\?:|\)|[|^.$]|(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??)*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The arguments and the result of one function."""

    takes: tuple[str, ...]
    """Type families of the arguments; `constant` ones must be literals."""
    gives: DataType | None = None
    """The type of the result; None is that of the first argument."""
    wanted: DataType | None = None
    """The type that arguments are cast to, where they can be."""
    allows: Callable[..., bool] = lambda *_: True
    """Whether the constants are supported."""


def of_family(kind: DataType, family: str) -> bool:
    """Whether a type belongs to a type family of the signatures."""
    match family:
        case "string":
            return is_string(kind)
        case "number":
            return is_number(kind)
        case "float":
            return is_float(kind)
        case "integer":
            return str(kind) in ("byte", "short", "integer")
        case "date or timestamp":
            return str(kind) in TIMES
    return str(kind) in ("timestamp", "timestamp_ntz")


def constant_positions(name: str, count: int) -> tuple[int, ...]:
    """Return which arguments of a function are constants."""
    signature = FUNCTIONS.get((name, count))
    takes = () if signature is None else signature.takes
    return tuple(index for index, family in enumerate(takes) if family.startswith("constant "))


def _is_unit(unit: Any) -> bool:
    return isinstance(unit, str) and unit.lower() in DATE_UNITS


def _is_date_unit(unit: Any) -> bool:
    return _is_unit(unit) and DATE_UNITS[unit.lower()] in _DATE_ONLY_UNITS


def _is_format(pattern: Any) -> bool:
    return isinstance(pattern, str) and _FORMAT.fullmatch(pattern) is not None


def _is_position(*numbers: Any) -> bool:
    return all(n is not None and -_MAX_POSITION <= n <= _MAX_POSITION for n in numbers)


def _is_regex(pattern: Any) -> bool:
    """Whether a pattern means the same to Java, which Spark uses, and to RE2, which Arrow uses."""
    if not isinstance(pattern, str) or "&&" in pattern or not _REGEX.fullmatch(pattern):
        return False
    try:
        pc.match_substring_regex(_ANY_STRING, pattern)
    except pa.ArrowInvalid:
        return False
    return True


_STRING_ARG, _TIME = ("string",), ("date or timestamp",)
_DATE_FIELDS = (
    "year",
    "quarter",
    "month",
    "day",
    "dayofweek",
    "weekday",
    "dayofyear",
    "weekofyear",
)

FUNCTIONS: dict[tuple[str, int], Signature] = {
    **{(name, 1): Signature(takes=_STRING_ARG, gives=STRING)
       for name in ("upper", "lower", "trim", "ltrim", "rtrim")},
    ("length", 1): Signature(takes=_STRING_ARG, gives=INTEGER),
    ("substring", 2): Signature(takes=("string", "constant integer"), gives=STRING,
                                allows=_is_position),
    ("substring", 3): Signature(takes=("string", *["constant integer"] * 2), gives=STRING,
                                allows=_is_position),
    **{(name, 2): Signature(takes=("string", "constant string"), gives=BOOLEAN,
                            allows=lambda string: string is not None)
       for name in ("startswith", "endswith", "contains")},
    ("rlike", 2): Signature(takes=("string", "constant string"), gives=BOOLEAN, allows=_is_regex),
    ("abs", 1): Signature(takes=("number",)),
    ("isnan", 1): Signature(takes=("float",), gives=BOOLEAN),
    **{(name, 1): Signature(takes=_TIME, gives=INTEGER) for name in _DATE_FIELDS},
    **{(name, 1): Signature(takes=("timestamp",), gives=INTEGER)
       for name in ("hour", "minute", "second")},
    ("trunc", 2): Signature(takes=("date or timestamp", "constant string"), gives=DATE, wanted=DATE,
                            allows=_is_date_unit),
    ("date_trunc", 2): Signature(takes=("constant string", "date or timestamp"), gives=TIMESTAMP,
                                 wanted=TIMESTAMP, allows=_is_unit),
    ("date_format", 2): Signature(takes=("date or timestamp", "constant string"), gives=STRING,
                                  allows=_is_format),
    ("last_day", 1): Signature(takes=_TIME, gives=DATE, wanted=DATE),
    **{(name, 2): Signature(takes=("date or timestamp", "integer"), gives=DATE, wanted=DATE)
       for name in ("date_add", "date_sub")},
    ("datediff", 2): Signature(takes=("date or timestamp",) * 2, gives=INTEGER, wanted=DATE),
}  # fmt: skip


def monotonic_argument(call: Call | Cast) -> Value | None:
    """Return the argument x if x <= y makes f(x) <= f(y) for all x and y, else None."""
    if isinstance(call, Cast):
        return call.value if _is_monotonic(type_of(call.value), call.type) else None
    if call.name in ("year", "trunc"):
        return call.args[0]
    if call.name == "date_trunc":
        return call.args[1]
    if call.name == "date_format":
        fields = _FORMAT_FIELD.findall(str(_constant(call.args[1])))
        return call.args[0] if fields == _ORDERED_FIELDS[: len(fields)] and fields else None
    if call.name == "substring":
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
