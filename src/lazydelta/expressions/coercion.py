"""Type rules: type families, supported casts, and the types of comparisons and arithmetic.

They are Spark's ANSI rules. Spark's legacy mode has others, and a table does not record the mode
of its writers. So a *strict* rule, for expressions in table metadata, has no type where the two
modes, or two session time zones, disagree. None means "no such type" everywhere here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes.value_nodes import Literal
from lazydelta.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType

__all__ = [
    "BINARY",
    "BOOLEAN",
    "DATE",
    "DOUBLE",
    "INTEGER",
    "LONG",
    "STRING",
    "TIMES",
    "TIMESTAMP",
    "VOID",
    "arithmetic_type",
    "assignable",
    "beside_string",
    "castable",
    "common_type",
    "digits",
    "is_exact_number",
    "is_flat",
    "is_float",
    "is_number",
    "is_string",
    "loose",
    "type_of",
]

BOOLEAN, STRING, VOID = (PrimitiveType(name) for name in ("boolean", "string", "void"))
INTEGER, LONG, DOUBLE = (PrimitiveType(name) for name in ("integer", "long", "double"))
DATE, TIMESTAMP = PrimitiveType("date"), PrimitiveType("timestamp")
BINARY = PrimitiveType("binary")
TIMES = ("date", "timestamp", "timestamp_ntz")

_MAX_PRECISION = 38
_MAX_STRING_SCALE = 6
"""Beyond it, legacy mode writes small decimals with an exponent."""
_EXACT_IN_FLOAT = 2**24
_FROM_STRING = frozenset({"boolean", "binary", "float", "double", *INTEGER_RANGES, *TIMES})
_CASTS = {
    "boolean": {"string", *INTEGER_RANGES},
    "float": {"double", *INTEGER_RANGES},
    "double": {"float", *INTEGER_RANGES},
    "date": {"string", "timestamp", "timestamp_ntz"},
    "timestamp": {"string", "date", "timestamp_ntz", "long"},
    "timestamp_ntz": {"string", "date", "timestamp"},
    **{name: {"boolean", "string", "float", "double", *INTEGER_RANGES} for name in INTEGER_RANGES},
}

_MORE_CASTS = {
    "boolean": {"float", "double"},
    "float": {"boolean", "string"},
    "double": {"boolean", "string"},
    "binary": {"string"},
    "timestamp": {"integer", "double"},
    **{name: {"timestamp"} for name in INTEGER_RANGES},
}
"""Casts that are not supported in table metadata: Spark's modes or Java's versions differ."""


def type_of(value: Value) -> DataType:
    """Return the type of a bound expression."""
    kind = getattr(value, "type", None)
    if kind is None:
        raise PredicateError(str(value), "it has no type yet; bind it to a schema first")
    return kind


def is_string(kind: DataType) -> bool:
    """Whether values are strings that compare by code point (not by a collation)."""
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


def is_number(kind: DataType) -> bool:
    """Whether values are numbers."""
    return is_exact_number(kind) or is_float(kind)


def is_flat(kind: DataType) -> bool:
    """Whether values can be compared: not nested, and not a variant."""
    return isinstance(kind, (PrimitiveType, DecimalType)) and str(kind) != "variant"


def castable(source: DataType, target: DataType, *, strict: bool) -> bool:
    """Whether CAST from one type to another is supported."""
    name = "string" if is_string(target) else str(target)
    if is_string(source):
        return isinstance(target, DecimalType) or name in _FROM_STRING
    if isinstance(source, DecimalType):
        if name == "string":
            return source.scale <= _MAX_STRING_SCALE or not strict
        return is_number(target) or (name == "boolean" and not strict)
    if isinstance(target, DecimalType):
        exact = str(source) in INTEGER_RANGES
        return exact or (not strict and (is_float(source) or source == BOOLEAN))
    more = () if strict else _MORE_CASTS.get(str(source), ())
    return name in _CASTS.get(str(source), ()) or name in more


def loose(kind: DataType) -> DataType:
    """Return a nested type in which every part may be null: the type of computed values."""
    match kind:
        case ArrayType(element):
            return ArrayType(loose(element))
        case MapType(key, value):
            return MapType(loose(key), loose(value))
        case StructType(fields):
            return StructType(tuple(StructField(f.name, loose(f.type)) for f in fields))
    return kind


def assignable(source: DataType, target: DataType, *, strict: bool) -> bool:
    """Whether values of a type are stored as another without an explicit CAST.

    Those are Spark's rules of ANSI store assignment; in table metadata there are fewer.
    """
    if not strict and (is_flat(source) and is_string(target)):
        return True
    if not strict and (loose(source) == loose(target) or {str(source), str(target)} <= {*TIMES}):
        return True
    return (
        source in (target, VOID)
        or (is_string(source) and is_string(target))
        or (is_number(source) and is_number(target))
        or (source == DATE and str(target) in TIMES)
    )


def digits(value: Value) -> tuple[int, int]:
    """Return how many digits an exact number may have before and behind the point.

    As in Spark, an integer literal counts its own digits.
    """
    kind = type_of(value)
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    if isinstance(value, Literal) and value.value is not None:
        return len(str(abs(value.value))), 0
    return {"byte": 3, "short": 5, "integer": 10, "long": 20}[str(kind)], 0


def common_type(a: Value, b: Value, *, strict: bool) -> DataType | None:
    """Return the type in which two values are compared, or that of a choice between them."""
    left, right = type_of(a), type_of(b)
    if left == right or loose(left) == loose(right):
        return left
    if is_string(left) and is_string(right):
        return STRING
    if is_number(left) and is_number(right):
        return _common_number(a, b, strict=strict)
    times = {str(left), str(right)}
    if not times <= set(TIMES) or (strict and "date" not in times):
        return None
    return PrimitiveType("timestamp_ntz" if "timestamp_ntz" in times else "timestamp")


def beside_string(other: DataType) -> DataType | None:
    """Return the type to which Spark's ANSI mode casts a string beside another type."""
    if str(other) in INTEGER_RANGES:
        return LONG
    if is_number(other):
        return DOUBLE
    return other if is_flat(other) and str(other) in _FROM_STRING else None


def _common_number(a: Value, b: Value, *, strict: bool) -> DataType | None:
    kinds = type_of(a), type_of(b)
    if any(map(is_float, kinds)):
        return None if strict and (_joins_float(a, b) or _joins_float(b, a)) else DOUBLE
    if any(isinstance(kind, DecimalType) for kind in kinds):
        (whole, scale), (other_whole, other_scale) = digits(a), digits(b)
        return _decimal(max(whole, other_whole), max(scale, other_scale))
    return _widest(*kinds)


def _joins_float(a: Value, b: Value) -> bool:
    """Whether an integer meets a float, which is a double in ANSI mode and a float in legacy."""
    if str(type_of(a)) not in INTEGER_RANGES or str(type_of(b)) != "float":
        return False
    exact = isinstance(a, Literal) and a.value is not None and abs(a.value) <= _EXACT_IN_FLOAT
    return not exact


def arithmetic_type(name: str, a: Value, b: Value, *, strict: bool) -> DataType | None:
    """Return the type of the result of a binary operator on two numbers."""
    kinds = type_of(a), type_of(b)
    if any(map(is_float, kinds)):
        if name == "div" or (strict and DOUBLE not in kinds and kinds[0] != kinds[1]):
            return None
        return kinds[0] if kinds[0] == kinds[1] and name != "/" else DOUBLE
    if any(isinstance(kind, DecimalType) for kind in kinds):
        return _decimal_arithmetic(name, digits(a), digits(b), strict=strict)
    return {"/": DOUBLE, "div": LONG}.get(name) or _widest(*kinds)


def _widest(a: DataType, b: DataType) -> DataType:
    return max(a, b, key=lambda kind: INTEGER_RANGES[str(kind)][1])


def _decimal_arithmetic(
    name: str, left: tuple[int, int], right: tuple[int, int], *, strict: bool
) -> DataType | None:
    (whole, scale), (other_whole, other_scale) = left, right
    if strict and name not in ("+", "-", "*"):
        return None
    match name:
        case "+" | "-":
            size = max(whole, other_whole) + 1, max(scale, other_scale)
        case "*":
            size = whole + other_whole + 1, scale + other_scale
        case "/":
            size = whole + other_scale, max(6, scale + other_whole + other_scale + 1)
        case "div":
            return LONG
        case _:
            size = min(whole, other_whole), max(scale, other_scale)
    return _decimal(*size) if strict else _decimal(*size) or _bounded_decimal(*size)


def _bounded_decimal(whole: int, scale: int) -> DecimalType:
    """Return the type of a result beyond 38 digits: at least 6 of them behind the point remain."""
    return DecimalType(38, max(38 - whole, min(scale, 6)))


def _decimal(whole: int, scale: int) -> DecimalType | None:
    """Return the exact type; beyond 38 digits Spark drops digits behind the point."""
    return DecimalType(whole + scale, scale) if whole + scale <= _MAX_PRECISION else None
