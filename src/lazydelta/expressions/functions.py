"""The functions a predicate may use: their types, and whether they keep the order of values.

How they are computed is in `expressions.arrow`. Times are read in UTC.
"""

from __future__ import annotations

import re

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes import Call, Cast, Literal, Value
from lazydelta.schema import INTEGER_RANGES, DataType, DecimalType, PrimitiveType

__all__ = [
    "DATE_UNITS",
    "is_exact_number",
    "is_float",
    "is_text",
    "keeps_order",
    "type_call",
    "type_cast",
    "type_of",
]

_DATE, _TIMESTAMP, _NTZ = (PrimitiveType(n) for n in ("date", "timestamp", "timestamp_ntz"))
_INTEGER, _STRING = PrimitiveType("integer"), PrimitiveType("string")
_TIMES = (_DATE, _TIMESTAMP, _NTZ)

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
"""Names of the units that times can be truncated to."""

_FORMAT = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|'[^']*'|[^A-Za-z'])*")
_FORMAT_FIELD = re.compile(r"yyyy|MM|dd|HH|mm|ss")
_ORDERED_FIELDS = ["yyyy", "MM", "dd", "HH", "mm", "ss"]


def type_of(value: Value) -> DataType:
    """Return the type of a bound value."""
    kind = getattr(value, "type", None)
    if kind is None:
        raise PredicateError(str(value), "it has no type yet; bind it to a schema first")
    return kind


def is_text(kind: DataType) -> bool:
    """Whether values are texts that compare by code point (not by a collation)."""
    return isinstance(kind, PrimitiveType) and kind.name.partition("(")[0] in (
        "string",
        "char",
        "varchar",
    )


def is_float(kind: DataType) -> bool:
    """Whether values may be NaN."""
    return isinstance(kind, PrimitiveType) and kind.name in ("float", "double")


def is_exact_number(kind: DataType) -> bool:
    """Whether values are integers or decimals."""
    return isinstance(kind, DecimalType) or str(kind) in INTEGER_RANGES


def type_call(call: Call) -> Value:  # noqa: PLR0911 - one return per function
    """Check a call whose arguments are bound, and give it its type.

    Raises:
        PredicateError: There is no such function, or not of such arguments.
    """
    name, args = call.name, call.args
    kinds = tuple(type_of(arg) for arg in args)
    if name in ("+", "-"):
        return _arithmetic(call, kinds)
    if name == "date" and len(args) == 1:
        return args[0] if kinds[0] == _DATE else Cast(args[0], _DATE)
    if name in ("year", "month", "day", "hour") and len(args) == 1:
        _require(call, kinds[0] in (_TIMES[1:] if name == "hour" else _TIMES), "a date or time")
        return Call(name, args, _INTEGER)
    if name == "trunc" and len(args) == 2:
        _require(call, kinds[0] in _TIMES and _unit(args[1]), "a date and a unit")
        day = args[0] if kinds[0] == _DATE else Cast(args[0], _DATE)
        return Call(name, (day, args[1]), _DATE)
    if name == "date_trunc" and len(args) == 2:
        _require(call, kinds[1] in _TIMES and _unit(args[0]), "a unit and a time")
        time = Cast(args[1], _TIMESTAMP) if kinds[1] == _DATE else args[1]
        return Call(name, (args[0], time), type_of(time))
    if name == "date_format" and len(args) == 2:
        _require(call, kinds[0] in _TIMES and _is_format(args[1]), "a time and a simple format")
        return Call(name, args, _STRING)
    if name == "substring" and len(args) in (2, 3):
        whole = all(isinstance(arg, Literal) and isinstance(arg.value, int) for arg in args[1:])
        _require(call, is_text(kinds[0]) and whole, "a text and constant positions")
        return Call(name, args, _STRING)
    if name == "length" and len(args) == 1:
        _require(call, is_text(kinds[0]), "a text")
        return Call(name, args, _INTEGER)
    known = "date, year, month, day, hour, trunc, date_trunc, date_format, substring, length"
    raise PredicateError(str(call), f"there is no function {name!r} of {len(args)}; known: {known}")


def keeps_order(call: Call | Cast) -> Value | None:
    """Return the argument x if x <= y makes f(x) <= f(y) for all x and y, else None."""
    if isinstance(call, Cast):
        return call.value if _cast_keeps_order(type_of(call.value), call.type) else None
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


def _cast_keeps_order(source: DataType, target: DataType) -> bool:
    if source in _TIMES and target in _TIMES:
        return True
    if source == _DATE and target == _STRING:
        return True  # expr.arrow gives NULL for years that would not sort
    if is_exact_number(source) and is_float(target):
        return True  # rounding keeps the order
    if str(source) == "float" and str(target) == "double":
        return True
    if not (is_exact_number(source) and is_exact_number(target)):
        return is_text(source) and is_text(target)
    low, high = _digits(source), _digits(target)
    fits = isinstance(source, PrimitiveType) or isinstance(target, DecimalType)
    return (low[0] <= high[0] if fits else low[0] < high[0]) and low[1] <= high[1]


def type_cast(cast: Cast) -> Value:
    """Check a cast whose value is bound; one to its own type is the value itself.

    Raises:
        PredicateError: Values of the one type cannot be had as the other.
    """
    source, target = type_of(cast.value), cast.type
    if source == target:
        return cast.value
    whole = str(source) in INTEGER_RANGES
    fine = (
        is_text(source)
        or (whole and (str(target) in INTEGER_RANGES or is_text(target)))
        or (str(source) == "boolean" and is_text(target))
        or _cast_keeps_order(source, target)
    )
    if not fine:
        raise PredicateError(str(cast), f"a {source} cannot be cast to {target} in a predicate")
    return cast


def _digits(kind: DataType) -> tuple[int, int]:
    """How many digits a number may have before and behind the point."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return len(str(INTEGER_RANGES[str(kind)][1])), 0


def _arithmetic(call: Call, kinds: tuple[DataType, ...]) -> Value:
    """Type a sum: exact numbers are added as decimals wide enough never to overflow."""
    numeric = all(is_exact_number(kind) or is_float(kind) for kind in kinds)
    _require(call, numeric and len(kinds) in (1, 2), "numbers")
    if any(is_float(kind) for kind in kinds):
        double = PrimitiveType("double")
        wide = tuple(arg if type_of(arg) == double else Cast(arg, double) for arg in call.args)
        return Call(call.name, wide, double)
    whole = max(_digits(kind)[0] for kind in kinds) + 1
    scale = max(_digits(kind)[1] for kind in kinds)
    _require(call, whole + scale <= 37, "numbers whose sum has at most 37 digits")
    kind = DecimalType(whole + scale, scale)
    return Call(call.name, tuple(Cast(arg, kind) for arg in call.args), kind)


def _require(call: Call, fine: object, wanted: str) -> None:
    if not fine:
        raise PredicateError(str(call), f"{call.name!r} takes {wanted}")


def _constant(value: Value) -> object:
    return value.value if isinstance(value, Literal) else None


def _unit(value: Value) -> bool:
    return str(_constant(value)).lower() in DATE_UNITS


def _is_format(value: Value) -> bool:
    text = _constant(value)
    return isinstance(text, str) and _FORMAT.fullmatch(text) is not None
