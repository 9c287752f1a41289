"""Convert a literal to the type of the value it is compared with, without changing the result.

A type holds some numbers exactly. For a literal that it does not hold, the comparison moves to the
nearest number that it does (`int_col < 10.5` is `int_col < 11`), or is decided for every value
(`byte_col < 1000` holds wherever there is a value). Nothing wraps. Nothing is rounded, except that
numbers compared with doubles become doubles, as in Spark.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lazydelta.errors import PredicateError
from lazydelta.expressions.coercion import (
    DOUBLE,
    digits,
    is_exact_number,
    is_float,
    is_string,
    type_of,
)
from lazydelta.expressions.nodes.predicates import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal
from lazydelta.schema import DataType, DecimalType, PrimitiveType
from lazydelta.schema.values import INTEGER_RANGES, parse_value

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.base import Value

__all__ = ["FLIPPED", "compare_literal", "fit_options", "read_string"]

FLIPPED = {"=": "=", "<=>": "<=>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparison operators with their sides exchanged."""
_DAY_MICROS = 86_400_000_000
_TIMESTAMPS = ("timestamp", "timestamp_ntz")
_NANO_TIMESTAMPS = ("timestamp_nanos", "timestamp_nanos_ntz")
_INT64 = INTEGER_RANGES["long"]


def compare_literal(op: str, value: Value, literal: Literal, *, solve: bool = True) -> Predicate:
    """Return `value op literal` with the literal in the type of the value.

    Args:
        op: A comparison operator.
        value: Bound, and not a literal.
        literal: Not NULL.
        solve: Whether `column + 1 > 5` becomes `column > 4`, which does not overflow.

    Raises:
        PredicateError: The two cannot be compared.
    """
    kind = type_of(value)
    if is_exact_number(kind):
        number = _number(value, literal)
        return _compare_number(op, value, number) if solve else _compare_step(op, value, number)
    if is_float(kind):
        return Compare(op, *_as_float(value, [literal]))
    name = str(kind)
    if name == "date":
        return _compare_step(op, value, _days(value, literal))
    if name in _TIMESTAMPS:
        return _compare_step(op, value, Fraction(_micros(value, literal)))
    if name in _NANO_TIMESTAMPS:
        return _compare_step(op, value, Fraction(_nanos(value, literal)))
    return Compare(op, value, Literal(_same_type(value, literal), kind))


def fit_options(value: Value, options: tuple[Literal, ...], *, solve: bool = True) -> Predicate:
    """Return `value IN options` with the options in the type of the value, each once."""
    if not options:
        return Constant(False)
    nulls = [option for option in options if option.value is None]
    given = [option for option in options if option.value is not None]
    kind = type_of(value)
    if is_float(kind) and given:
        value, *fitted = _as_float(value, given)
        kind = type_of(value)
    else:
        found = [compare_literal("=", value, option, solve=solve) for option in given]
        tests = [test for test in found if isinstance(test, Compare)]
        fitted = [test.right for test in tests]
        if tests:  # solving moves arithmetic to the other side, the same way for all
            value = tests[0].left
            kind = type_of(value)
    values = {option.value for option in fitted if isinstance(option, Literal)}
    unique = sorted(values, key=lambda v: (v != v, v))  # NaN last  # noqa: PLR0124
    if not unique:
        return Constant(None) if nulls else _never(value)
    known = tuple(Literal(option, kind) for option in unique)
    return In(value, (*known, Literal(None, kind)) if nulls else known)


# --- types with a fixed step: integers, decimals, days, microseconds ------------------------------


def _compare_number(op: str, value: Value, number: Fraction | float) -> Predicate:
    """Compare with a number; a literal that is added or subtracted moves to the other side."""
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
        return FLIPPED[op], args[0], -number
    first, second = args
    if isinstance(second, Literal) and second.value is not None:
        shift = Fraction(second.value)
        return op, first, number - shift if call.name == "+" else number + shift
    if isinstance(first, Literal) and first.value is not None:
        shift = Fraction(first.value)
        if call.name == "+":
            return op, second, number - shift
        return FLIPPED[op], second, shift - number
    return None


def _uncast(value: Value) -> Value:
    """Undo the implicit cast of an operand of arithmetic."""
    if isinstance(value, Cast) and _is_wider(type_of(value.value), value.type):
        return value.value
    return value


def _is_wider(source: DataType, target: DataType) -> bool:
    if not (is_exact_number(source) and is_exact_number(target)):
        return False
    (whole, scale), (wide, fine) = digits(Column((), source)), digits(Column((), target))
    is_exact = isinstance(target, DecimalType) or not isinstance(source, DecimalType)
    return is_exact and whole <= wide and scale <= fine


def _compare_step(op: str, value: Value, number: Fraction | float) -> Predicate:
    """Compare values that are multiples of a step with any number, exactly."""
    kind = type_of(value)
    low, high, step = _steps(kind)
    if isinstance(number, float):  # an infinity, or NaN, which is above it
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
    """Return the least and the greatest value of a type in steps, and the size of a step."""
    if isinstance(kind, DecimalType):
        most = 10**kind.precision - 1
        return -most, most, Fraction(1, 10**kind.scale)
    if str(kind) == "date":
        return *INTEGER_RANGES["integer"], Fraction(1)
    return *INTEGER_RANGES.get(str(kind), _INT64), Fraction(1)


def _unscaled(steps: int, kind: DataType) -> Any:
    if not isinstance(kind, DecimalType):
        return steps
    figures = tuple(map(int, str(abs(steps))))
    return Decimal((int(steps < 0), figures, -kind.scale))


def _decided(op: str, value: Value, order: int) -> Predicate:
    """Return the comparison with a literal that every value is below (-1) or above (1)."""
    if op == "<=>":
        return Constant(False)
    true = {"=": False, "!=": True, "<": order < 0, "<=": order < 0}.get(op, order > 0)
    return Or((Not(IsNull(value)), Constant(None))) if true else _never(value)


def _never(value: Value) -> Predicate:
    """Return a predicate that is FALSE for a value and unknown for NULL."""
    return And((IsNull(value), Constant(None)))


# --- reading literals -----------------------------------------------------------------------------


def read_string(value: Value, literal: Literal, kind: DataType) -> Any:
    """Return the value of a type that a string literal spells.

    Raises:
        PredicateError: It does not; the message names what it is compared with.
    """
    string = literal.value if str(kind) == "binary" else literal.value.strip()
    try:
        return parse_value(string, kind)
    except ValueError:
        raise _mismatch(value, literal) from None


def _number(value: Value, literal: Literal) -> Fraction | float:
    given = literal.value
    if isinstance(given, str):
        read = read_string(value, literal, DOUBLE)
        is_plain = math.isfinite(read) and given.strip().isascii()
        given = Decimal(given.strip()) if is_plain else read
    if isinstance(given, bool) or str(literal.type) in ("date", *_TIMESTAMPS, "binary"):
        raise _mismatch(value, literal)
    if isinstance(given, float):  # the shortest decimal of a double is the number that was meant
        return Fraction(Decimal(repr(given))) if math.isfinite(given) else given
    return Fraction(given)


def _as_float(value: Value, literals: list[Literal]) -> tuple[Value, ...]:
    """Compare as float if that holds all literals, else as double."""
    numbers = [_to_double(value, literal) for literal in literals]
    kind = type_of(value)
    if kind != DOUBLE and not all(map(_is_float32, numbers)):
        value, kind = Cast(value, DOUBLE), DOUBLE
    return value, *(Literal(number, kind) for number in numbers)


def _is_float32(number: float) -> bool:
    try:
        return math.isnan(number) or struct.unpack("f", struct.pack("f", number))[0] == number
    except OverflowError:
        return False


def _to_double(value: Value, literal: Literal) -> float:
    number = _number(value, literal)
    if isinstance(number, float):
        return number
    if isinstance(literal.value, float):
        return literal.value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _days(value: Value, literal: Literal) -> Fraction:
    name = str(literal.type)
    if name == "date":
        return Fraction(literal.value)
    if name in _TIMESTAMPS:
        return Fraction(literal.value, _DAY_MICROS)
    if name != "string":
        raise _mismatch(value, literal)
    try:
        return Fraction(parse_value(literal.value.strip(), PrimitiveType("date")))
    except ValueError:  # a time of day is dropped, as in Spark
        return Fraction(read_string(value, literal, PrimitiveType("timestamp_ntz")) // _DAY_MICROS)


def _micros(value: Value, literal: Literal) -> int:
    name = str(literal.type)
    if name in _TIMESTAMPS:
        return int(literal.value)
    if name == "date":
        return int(literal.value) * _DAY_MICROS
    if name != "string":
        raise _mismatch(value, literal)
    return int(read_string(value, literal, type_of(value)))


def _nanos(value: Value, literal: Literal) -> int:
    if str(literal.type) == "string":
        return int(read_string(value, literal, type_of(value)))
    return 1000 * _micros(value, literal)


def _same_type(value: Value, literal: Literal) -> Any:
    """Read a literal for a boolean, a string or binary."""
    given, kind = literal.value, type_of(value)
    if isinstance(given, str) and (is_string(kind) or str(kind).startswith("string collate")):
        return given
    if isinstance(given, str) and str(kind) in ("boolean", "binary"):
        return read_string(value, literal, kind)
    wanted = {"boolean": bool, "binary": bytes}.get(str(kind))
    if wanted is not None and isinstance(given, wanted):
        return given
    raise _mismatch(value, literal)


def _mismatch(value: Value, literal: Literal) -> PredicateError:
    """Return the error of a literal that does not fit, in terms of the column."""
    what = f"column {value}" if isinstance(value, Column) else str(value)
    if str(literal.type) == "string":
        reason = f"has type {type_of(value)}, and {literal} cannot be converted to it"
    else:
        reason = f"has type {type_of(value)} and cannot be compared with {literal} ({literal.type})"
    return PredicateError(str(literal), f"{what} {reason}")
