"""Casts of bound values: explicit and implicit ones, and the values of constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import PredicateError
from lazydelta.expressions.coercion import (
    VOID,
    beside_string,
    castable,
    common_type,
    is_flat,
    is_string,
    loose,
    type_of,
)
from lazydelta.expressions.evaluation import evaluate_checked
from lazydelta.expressions.nodes.predicates import Constant, Predicate
from lazydelta.expressions.nodes.value_nodes import Cast, Column, Literal, Stat
from lazydelta.schema import DecimalType
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType

__all__ = [
    "cast_if_possible",
    "cast_to",
    "common",
    "computed",
    "constant_of",
    "folded",
    "listed",
    "uncommon",
]


def cast_to(value: Value, kind: DataType, *, strict: bool, safe: bool = False) -> Value | None:
    """Return a value as another type; None if that cast is not supported."""
    source = type_of(value)
    if source == kind or (is_string(source) and is_string(kind)):
        return value
    if isinstance(value, Literal) and value.value is None:
        return Literal(None, kind)
    if isinstance(value, Literal) and _holds(source, kind, value.value):
        return Literal(value.value, kind)
    if not is_flat(source):
        return value if loose(source) == loose(kind) else None
    fine = castable(source, kind, strict=strict)
    return computed(Cast(value, kind, safe)) if fine else None


def _holds(source: DataType, target: DataType, value: Any) -> bool:
    """Whether an integer type holds an integer literal: the cast that is needed most."""
    if str(source) not in INTEGER_RANGES or str(target) not in INTEGER_RANGES:
        return False
    low, high = INTEGER_RANGES[str(target)]
    return low <= value <= high


def cast_if_possible(value: Value, kind: DataType, *, strict: bool) -> Value:
    """Return a value as another type, or as it is if that cast is not supported."""
    found = cast_to(value, kind, strict=strict)
    return value if found is None else found


def common(
    values: tuple[Value, ...], of: str, *, strict: bool, is_choice: bool = False
) -> tuple[Value, ...]:
    """Cast values to their common type; NULL takes the type of the others.

    Args:
        values: Bound.
        of: The expression, for errors.
        strict: Whether it is in table metadata.
        is_choice: Whether one of the values is the result. Then the type does not depend on the
            digits of literals, as it does in comparisons, and strings are cast, which comparisons
            refuse.

    Raises:
        PredicateError: They have none without an explicit CAST.
    """
    known = [value for value in values if type_of(value) != VOID] or list(values)
    if is_choice and any(isinstance(type_of(value), DecimalType) for value in known):
        known = [Column((), type_of(value)) for value in known]
    seen = known[0]
    for value in known[1:]:
        kind = common_type(seen, value, strict=strict)
        if kind is None and is_choice and not strict:
            kind = _with_string(type_of(seen), type_of(value))
        if kind is None:
            raise PredicateError(of, uncommon(known[0], value))
        if kind != type_of(seen):
            seen = Column((), kind)
    target = type_of(seen)
    found = tuple(cast_to(value, target, strict=strict) for value in values)
    for value, converted in zip(values, found, strict=True):
        if converted is None:
            raise PredicateError(of, uncommon(known[0], value))
    return found  # type: ignore[return-value]


def _with_string(a: DataType, b: DataType) -> DataType | None:
    """Return the type of a choice between a string and another value."""
    if is_string(a) == is_string(b):
        return None
    return beside_string(b if is_string(a) else a)


def constant_of(value: Value) -> Literal | None:
    """Return the value of a bound expression without columns; None if its evaluation fails."""
    found = evaluate_checked(value, _no_column, 1)
    if found.failed is not None:
        return None
    kind = type_of(value)
    values = found.values
    if str(kind) == "date":
        values = values.view("int32")
    elif str(kind) in ("timestamp", "timestamp_ntz"):
        values = values.view("int64")
    return Literal(values[0].as_py(), kind)


def folded(predicate: Predicate) -> Predicate:
    """Compute a predicate without columns."""
    found = constant_of(predicate) if _is_constant(predicate) else None
    return predicate if found is None else Constant(found.value)


def computed(value: Value) -> Value:
    """Compute a value without columns; one that fails stays, and fails for each row."""
    if isinstance(value, (Literal, Predicate)) or not _is_constant(value):
        return value
    if not is_flat(type_of(value)):
        return value  # there are no literals of such types
    return constant_of(value) or value


def uncommon(a: Value, b: Value) -> str:
    """Return why two values cannot be compared."""
    return f"{listed([type_of(a), type_of(b)])} cannot be compared without an explicit CAST"


def listed(kinds: Sequence[DataType]) -> str:
    """Return types for an error message."""
    return " and ".join(map(str, kinds))


def _no_column(ref: Column | Stat) -> pa.Array:
    raise PredicateError(str(ref), "a constant was expected")


def _is_constant(value: Value) -> bool:
    return not any(isinstance(node, (Column, Stat)) for node in value.walk())
