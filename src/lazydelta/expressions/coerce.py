"""Bring a constant to the type of the value it is compared with, without changing the answer.

A type holds some numbers exactly. For one that it does not hold, the comparison moves to the
nearest that it does, or is decided for every value there is.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from lazydelta.errors import PredicateError
from lazydelta.expressions.functions import is_exact_number, is_float, is_text, type_of
from lazydelta.expressions.nodes import (
    And,
    Call,
    Cast,
    Compare,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    Value,
)
from lazydelta.schema import INTEGER_RANGES, DataType, DecimalType, PrimitiveType, parse_value

__all__ = ["compare_constant", "fit_options", "unify"]

_FLIPPED = {"=": "=", "<=>": "<=>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DOUBLE = PrimitiveType("double")
_DAY_MICROS = 86_400_000_000
_TIMES = ("timestamp", "timestamp_ntz")
_NANO_TIMES = ("timestamp_nanos", "timestamp_nanos_ntz")
_INT64 = INTEGER_RANGES["long"]


def compare_constant(op: str, value: Value, constant: Literal) -> Predicate:
    """Return `value op constant` with the constant in the value's type.

    Raises:
        PredicateError: The two cannot be compared.
    """
    kind = type_of(value)
    if is_exact_number(kind):
        return _compare_number(op, value, _number(constant, kind))
    if is_float(kind):
        return Compare(op, *_as_float(value, [constant]))
    name = str(kind)
    if name == "date":
        return _compare_step(op, value, _day(constant))
    if name in _TIMES:
        return _compare_step(op, value, Fraction(_micros(constant, kind)))
    if name in _NANO_TIMES:
        return _compare_step(op, value, Fraction(_nanos(constant, kind)))
    return Compare(op, value, Literal(_same_kind(constant, kind), kind))


def fit_options(value: Value, options: tuple[Literal, ...]) -> Predicate:
    """Return `value IN options` with the options in the value's type, each once."""
    if not options:
        return Constant(False)
    nulls = [option for option in options if option.value is None]
    given = [option for option in options if option.value is not None]
    kind = type_of(value)
    if is_float(kind) and given:
        value, *fitted = _as_float(value, given)
        kind = type_of(value)
    else:
        found = [compare_constant("=", value, option) for option in given]
        tests = [test for test in found if isinstance(test, Compare)]
        fitted = [test.right for test in tests]
        if tests:  # arithmetic may have moved to the other side, the same way for all
            value = tests[0].left
            kind = type_of(value)
    values = {option.value for option in fitted if isinstance(option, Literal)}
    unique = sorted(values, key=lambda v: (v != v, v))  # NaN last  # noqa: PLR0124
    if not unique:
        return Constant(None) if nulls else _never(value)
    known = tuple(Literal(option, kind) for option in unique)
    return In(value, (*known, Literal(None, kind)) if nulls else known)


def unify(left: Value, right: Value) -> tuple[Value, Value]:
    """Return two values, cast where needed to a type that holds both exactly.

    Raises:
        PredicateError: There is no such type.
    """
    a, b = type_of(left), type_of(right)
    if a == b or (is_text(a) and is_text(b)):
        return left, right
    target = _common(a, b)
    if target is None:
        raise PredicateError(f"{left}, {right}", f"{a} and {b} cannot be compared")
    cast_left = left if a == target else Cast(left, target)
    return cast_left, right if b == target else Cast(right, target)


def _common(a: DataType, b: DataType) -> DataType | None:
    numeric = all(is_exact_number(kind) or is_float(kind) for kind in (a, b))
    if numeric and (is_float(a) or is_float(b)):
        return _DOUBLE
    if numeric and not (isinstance(a, DecimalType) or isinstance(b, DecimalType)):
        return max(a, b, key=lambda kind: INTEGER_RANGES[str(kind)][1])
    if numeric:
        whole = max(_whole_digits(a), _whole_digits(b))
        scale = max(getattr(kind, "scale", 0) for kind in (a, b))
        return DecimalType(whole + scale, scale) if whole + scale <= 38 else None
    times = {str(a), str(b)}
    if times <= {"date", *_TIMES}:
        return PrimitiveType("timestamp_ntz" if "timestamp_ntz" in times else "timestamp")
    return None


def _whole_digits(kind: DataType) -> int:
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale
    return len(str(INTEGER_RANGES[str(kind)][1]))


# --- numbers that come in steps: integers, decimals, days, microseconds ---------------------------


def _compare_number(op: str, value: Value, number: Fraction | float) -> Predicate:
    """Compare with a number; a constant that is added or taken away moves to the other side."""
    while isinstance(value, Call) and value.name in ("+", "-") and isinstance(number, Fraction):
        moved = _moved(op, value, number)
        if moved is None:
            break
        op, value, number = moved
    while isinstance(value, Cast) and _is_wider(type_of(value.value), value.type):
        value = value.value
    return _compare_step(op, value, number)


def _moved(op: str, call: Call, number: Fraction) -> tuple[str, Value, Fraction] | None:
    args = [_uncast(arg) for arg in call.args]
    if len(args) == 1:
        return _FLIPPED[op], args[0], -number
    first, second = args
    if isinstance(second, Literal) and second.value is not None:
        shift = Fraction(second.value)
        return op, first, number - shift if call.name == "+" else number + shift
    if isinstance(first, Literal) and first.value is not None:
        shift = Fraction(first.value)
        if call.name == "+":
            return op, second, number - shift
        return _FLIPPED[op], second, shift - number
    return None


def _uncast(value: Value) -> Value:
    """Undo the widening that arithmetic puts around its operands."""
    if isinstance(value, Cast) and _is_wider(type_of(value.value), value.type):
        return value.value
    return value


def _is_wider(source: DataType, target: DataType) -> bool:
    if not (is_exact_number(source) and is_exact_number(target)):
        return False
    scales = getattr(source, "scale", 0), getattr(target, "scale", 0)
    if isinstance(target, DecimalType):
        return _whole_digits(source) <= _whole_digits(target) and scales[0] <= scales[1]
    if isinstance(source, DecimalType):
        return False
    return INTEGER_RANGES[str(source)][1] <= INTEGER_RANGES[str(target)][1]


def _compare_step(op: str, value: Value, number: Fraction | float) -> Predicate:
    """Compare values that are whole multiples of a step with any number, exactly."""
    kind = type_of(value)
    low, high, step = _steps(kind)
    if isinstance(number, float):  # beyond all numbers: an infinity, or NaN, which is above it
        below = not (number < 0)
        return _decided(op, value, -1 if below else 1)
    scaled = number / step
    down, up = math.floor(scaled), math.ceil(scaled)
    if op in ("=", "<=>", "!=") and (down != up or not low <= down <= high):
        return _decided(op, value, 1)
    bound = up if op in ("<", ">=") else down
    if bound > high or (bound == high and op == "<="):
        return _decided(op, value, -1)
    if bound < low or (bound == low and op == ">="):
        return _decided(op, value, 1)
    return Compare(op, value, Literal(_unscaled(bound, kind), kind))


def _steps(kind: DataType) -> tuple[int, int, Fraction]:
    """Return the least and the greatest step of a type, and how large a step is."""
    if isinstance(kind, DecimalType):
        most = 10**kind.precision - 1
        return -most, most, Fraction(1, 10**kind.scale)
    if str(kind) == "date":
        return *INTEGER_RANGES["integer"], Fraction(1)
    return *INTEGER_RANGES.get(str(kind), _INT64), Fraction(1)


def _unscaled(steps: int, kind: DataType) -> Any:
    if not isinstance(kind, DecimalType):
        return steps
    digits = tuple(map(int, str(abs(steps))))
    return Decimal((int(steps < 0), digits, -kind.scale))


def _decided(op: str, value: Value, order: int) -> Predicate:
    """Return the comparison of every value with a constant all are below (-1) or above (1)."""
    if op == "<=>":
        return Constant(False)
    true = {"=": False, "!=": True, "<": order < 0, "<=": order < 0}.get(op, order > 0)
    return Or((Not(IsNull(value)), Constant(None))) if true else _never(value)


def _never(value: Value) -> Predicate:
    """False where there is a value, unknown where there is none."""
    return And((IsNull(value), Constant(None)))


# --- reading constants ----------------------------------------------------------------------------


def _number(constant: Literal, kind: DataType) -> Fraction | float:
    given = constant.value
    if isinstance(given, str):
        given = _read(constant, _DOUBLE) if not given.strip().isascii() else _text_number(constant)
    if isinstance(given, bool) or str(constant.type) in ("date", *_TIMES, "binary"):
        raise _mismatch(constant, kind)
    if isinstance(given, float):  # the shortest text of a double is the number that was meant
        return Fraction(Decimal(repr(given))) if math.isfinite(given) else given
    return Fraction(given)


def _text_number(constant: Literal) -> Decimal | float:
    text = constant.value.strip()
    value = _read(Literal(text, constant.type), _DOUBLE)
    return Decimal(text) if math.isfinite(value) else value


def _as_float(value: Value, constants: list[Literal]) -> tuple[Value, ...]:
    """Compare as float if that holds all constants, else as double."""
    numbers = [_to_double(constant, type_of(value)) for constant in constants]
    with np.errstate(over="ignore"):
        narrow = all(math.isnan(n) or float(np.float32(n)) == n for n in numbers)
    kind = type_of(value)
    if kind != _DOUBLE and not narrow:
        value, kind = Cast(value, _DOUBLE), _DOUBLE
    return value, *(Literal(number, kind) for number in numbers)


def _to_double(constant: Literal, kind: DataType) -> float:
    number = _number(constant, kind)
    if isinstance(number, float):
        return number
    if isinstance(constant.value, float):
        return constant.value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _day(constant: Literal) -> Fraction:
    name = str(constant.type)
    if name == "date":
        return Fraction(constant.value)
    if name in _TIMES:
        return Fraction(constant.value, _DAY_MICROS)
    if name != "string":
        raise _mismatch(constant, PrimitiveType("date"))
    text = constant.value.strip()
    try:
        return Fraction(parse_value(text, PrimitiveType("date")))
    except ValueError:  # a time of day is cut off, as Spark does
        return Fraction(_read(constant, PrimitiveType("timestamp_ntz")) // _DAY_MICROS)


def _micros(constant: Literal, kind: DataType) -> int:
    name = str(constant.type)
    if name in _TIMES:
        return int(constant.value)
    if name == "date":
        return int(constant.value) * _DAY_MICROS
    if name != "string":
        raise _mismatch(constant, kind)
    return int(_read(constant, kind))


def _nanos(constant: Literal, kind: DataType) -> int:
    is_text = str(constant.type) == "string"
    return int(_read(constant, kind)) if is_text else 1000 * _micros(constant, kind)


def _same_kind(constant: Literal, kind: DataType) -> Any:
    """Read a constant for a type without order among numbers: boolean, text, binary."""
    given, name = constant.value, str(kind)
    if isinstance(given, str) and (is_text(kind) or name.startswith("string collate")):
        return given
    if isinstance(given, str) and name in ("boolean", "binary"):
        return _read(constant, kind)
    if (isinstance(given, bool) and name == "boolean") or (
        isinstance(given, bytes) and name == "binary"
    ):
        return given
    raise _mismatch(constant, kind)


def _read(constant: Literal, kind: DataType) -> Any:
    try:
        return parse_value(
            constant.value if str(kind) == "binary" else constant.value.strip(), kind
        )
    except ValueError as error:
        raise PredicateError(str(constant), f"it is compared with a {kind}, but {error}") from None


def _mismatch(constant: Literal, kind: DataType) -> PredicateError:
    return PredicateError(str(constant), f"a {constant.type} cannot be compared with a {kind}")
