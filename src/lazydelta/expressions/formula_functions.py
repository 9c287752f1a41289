"""The functions that a formula may use, by name and number of arguments: what they take and give.

How they are computed is in `expressions.formula_compute`. A function is here only if its result is known
to be Spark's for every value, or its failure where Spark's two sets of rules differ. Times are
read in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions.functions import DATE_UNITS, is_exact_number, is_float, is_text
from lazydelta.schema import DataType, PrimitiveType, build_array

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS", "Signature", "of_family"]

_BOOLEAN, _STRING, _DATE = (PrimitiveType(name) for name in ("boolean", "string", "date"))
_INTEGER, _TIMESTAMP = PrimitiveType("integer"), PrimitiveType("timestamp")
_MOST_POSITION = 2**31 - 1
_ANY_TEXT = build_array([""], _STRING)

_FORMAT = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|'[^']*'|[^A-Za-z'])*")
_DAY_UNITS = frozenset({"year", "quarter", "month", "week"})
# Java and RE2 read these alike: plain characters, classes of them, groups, repetitions, anchors.
_REGEX = re.compile(
    r"(?:[^\\\[\](){}?*+|^$.]|\\[dDwWsS.\\|(){}\[\]*+?^$/-]|\[\^?(?:[^\\\[\]&]|\\[dws.\\\]\[^-])+\]"
    r"|\((?!\?)|\(\?:|\)|[|^.$]|(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??)*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What one function takes and gives."""

    takes: tuple[str, ...]
    """Families of the arguments; one that begins with `constant` must not depend on the row."""
    gives: DataType | None = None
    """The type of the result; None is that of the first argument."""
    op: str | None = None
    """The operation that computes it, if not the one of its name."""
    wanted: DataType | None = None
    """What arguments that are not constants are cast to, where they can be."""
    allows: Callable[..., bool] = lambda *_: True
    """Whether the constants are ones that are understood."""


def of_family(kind: DataType, family: str) -> bool:  # noqa: PLR0911 - one per family
    """Whether a type belongs to one of the families that signatures name."""
    name = str(kind)
    match family:
        case "text":
            return is_text(kind)
        case "number":
            return is_exact_number(kind) or is_float(kind)
        case "whole number":
            return name in ("byte", "short", "integer")
        case "float":
            return is_float(kind)
        case "date or time":
            return name in ("date", "timestamp", "timestamp_ntz")
        case "time":
            return name in ("timestamp", "timestamp_ntz")
        case _:
            return name == family


def _is_known(text: Any) -> bool:
    return text is not None


def _is_unit(unit: Any) -> bool:
    return isinstance(unit, str) and unit.lower() in DATE_UNITS


def _is_day_unit(unit: Any) -> bool:
    return _is_unit(unit) and DATE_UNITS[unit.lower()] in _DAY_UNITS


def _is_format(text: Any) -> bool:
    return isinstance(text, str) and _FORMAT.fullmatch(text) is not None


def _is_position(*numbers: Any) -> bool:
    return all(n is not None and -_MOST_POSITION <= n <= _MOST_POSITION for n in numbers)


def _is_regex(pattern: Any) -> bool:
    """Whether a pattern means the same to Java, which Spark uses, and to RE2, which Arrow uses."""
    if not isinstance(pattern, str) or "&&" in pattern or not _REGEX.fullmatch(pattern):
        return False
    try:
        pc.match_substring_regex(_ANY_TEXT, pattern)
    except pa.ArrowInvalid:
        return False
    return True


_TEXT, _ANY_TIME = ("text",), ("date or time",)
_PARTS = ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear")

FUNCTIONS: dict[tuple[str, int], Signature] = {
    **{(name, 1): Signature(takes=_TEXT, gives=_STRING) for name in ("upper", "lower")},
    **{(name, 1): Signature(takes=_TEXT, gives=_STRING, op=op) for name, op in (
        ("ucase", "upper"), ("lcase", "lower"), ("trim", "trim"), ("btrim", "trim"),
        ("ltrim", "ltrim"), ("rtrim", "rtrim"))},
    **{(name, 1): Signature(takes=_TEXT, gives=_INTEGER, op="length") for name in (
        "length", "len", "char_length", "character_length")},
    ("substring", 2): Signature(takes=("text", "constant whole number"), gives=_STRING,
                                allows=_is_position),
    ("substring", 3): Signature(takes=("text", *["constant whole number"] * 2), gives=_STRING,
                                allows=_is_position),
    **{(name, 2): Signature(takes=("text", "constant text"), gives=_BOOLEAN, allows=_is_known)
       for name in ("startswith", "endswith", "contains")},
    **{(name, 2): Signature(takes=("text", "constant text"), gives=_BOOLEAN, op="rlike",
                            allows=_is_regex) for name in ("rlike", "regexp", "regexp_like")},
    ("abs", 1): Signature(takes=("number",)),
    ("negative", 1): Signature(takes=("number",), op="negate"),
    ("isnan", 1): Signature(takes=("float",), gives=_BOOLEAN),
    **{(name, 1): Signature(takes=_ANY_TIME, gives=_INTEGER) for name in _PARTS},
    **{(name, 1): Signature(takes=("time",), gives=_INTEGER)
       for name in ("hour", "minute", "second")},
    ("date", 1): Signature(takes=_ANY_TIME, gives=_DATE, op="identity", wanted=_DATE),
    ("trunc", 2): Signature(takes=("date or time", "constant text"), gives=_DATE, wanted=_DATE,
                            allows=_is_day_unit),
    ("date_format", 2): Signature(takes=("date or time", "constant text"), gives=_STRING,
                                  allows=_is_format),
    ("last_day", 1): Signature(takes=_ANY_TIME, gives=_DATE, wanted=_DATE),
    ("date_trunc", 2): Signature(takes=("constant text", "date or time"), gives=_TIMESTAMP,
                                 wanted=_TIMESTAMP, allows=_is_unit),
    **{(name, 2): Signature(takes=("date or time", "whole number"), gives=_DATE, wanted=_DATE)
       for name in ("date_add", "date_sub")},
    ("datediff", 2): Signature(takes=("date or time",) * 2, gives=_INTEGER, wanted=_DATE),
}  # fmt: skip
