"""Bounds of expressions, from the bounds of the columns of a file.

`lower` and `upper` give, for an expression on rows, an expression over statistics that no row of
the file is below or above. The other functions compare such bounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lazydelta.expressions.coercion import INTEGER, TIMES, is_float, is_number, is_string, type_of
from lazydelta.expressions.logic import join_or, required_columns
from lazydelta.expressions.monotonic import monotonic_argument
from lazydelta.expressions.nodes.predicates import Compare, Constant, In, Predicate
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal, Stat

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.nodes.base import Node, Value

__all__ = [
    "below",
    "differ",
    "if_single",
    "is_nan",
    "lower",
    "mark_numbers",
    "not_nan",
    "substitute",
    "upper",
]

_TRUE = Constant(True)
_TRUNCATED = 32
"""Writers truncate the statistics of strings to this many characters by default."""


def below(op: str, left: Value, right: Value, *, equal: bool = False) -> Predicate:
    """Return when `left op right`, with `<` or `<=`, may be TRUE for a row.

    Args:
        op: `<` or `<=`.
        left: Of the rows.
        right: Of the rows.
        equal: Whether this is half of `left = right`, which matters for NaN.
    """
    low, high = (
        lower(left),
        upper(right, equal=equal and not (_may_be_nan(left) or is_nan(left))),
    )
    if low is None or high is None or (isinstance(low, Literal) and isinstance(high, Literal)):
        return _TRUE
    if is_nan(high):
        return _TRUE  # everything is below NaN, or equal to it
    if isinstance(low, Literal):
        return Compare({"<": ">", "<=": ">="}[op], high, low)
    return Compare(op, low, high)


def differ(left: Value, right: Value) -> Predicate:
    """Return when two values may differ: not if both bounds of both are one value."""
    if is_float(type_of(left)) or _may_be_truncated(left, right):
        return _TRUE
    pairs = (lower(left), upper(right)), (upper(left), lower(right))
    arms = [Compare("!=", a, b) for a, b in pairs if a is not None and b is not None and a != b]
    return join_or(arms) if len(arms) == 2 else _TRUE


def if_single(node: Predicate) -> Predicate:
    """Return when a condition on one column may be TRUE, from files that hold one value of it.

    If `min` and `max` are the same, that value decides a condition that is not TRUE for NULL.
    """
    columns = {part for part in node.walk() if isinstance(part, Column)}
    if len(columns) != 1 or columns != required_columns(node):
        return _TRUE
    column = columns.pop()
    if is_float(type_of(column)) and any(map(_sees_zeros, node.walk())):
        return _TRUE
    low, high = lower(column), upper(column)
    if low is None or high is None or str(column.type).startswith("timestamp"):
        return _TRUE  # timestamps are truncated: one bound may stand for many values
    arms: list[Predicate] = [Compare("!=", low, high)]
    if is_string(type_of(column)):
        arms.append(
            Compare(
                ">=",
                Call("length", (low,), INTEGER),
                Literal(_TRUNCATED, INTEGER),
            )
        )
    return join_or([*arms, substitute(node, lambda _: low)])


def _sees_zeros(node: Node) -> bool:
    """Whether a function may tell 0.0 from -0.0, which bounds do not."""
    if isinstance(node, Cast):
        return not is_number(node.type)
    return isinstance(node, Call) and node.name not in ("+", "-", "*")


def lower(value: Value) -> Value | None:
    """Return a value that no row is below, or None."""
    return _bound(value, "min")


def upper(value: Value, *, equal: bool = False) -> Value | None:
    """Return a value that no row is above, or None.

    Args:
        value: Of the rows.
        equal: Whether only rows matter that equal some number, so that NaN does not.
    """
    if _may_be_nan(value) and not equal:
        return None
    return _bound(value, "max")


def _bound(value: Value, kind: str) -> Value | None:  # noqa: PLR0911 - one return per node
    match value:
        case Literal():
            return value
        case Column(path, column_type, is_partition):
            if column_type is None or not _has_bounds(value):
                return None
            return Stat("partition" if is_partition else kind, path, column_type)
        case Call("+" | "-", args):
            return _sum_bound(value, args, kind)
        case Cast() | Call():
            inner = monotonic_argument(value)
            bound = None if inner is None else _bound(inner, kind)
            if bound is None or inner is None:
                return None
            return value.rebuild(tuple(bound if p is inner else p for p in value.parts()))
    return None


def _sum_bound(call: Call, args: tuple[Value, ...], kind: str) -> Value | None:
    """Bound a sum by the sum of bounds; a subtrahend uses the opposite bound."""
    opposite = "max" if kind == "min" else "min"
    kinds = [kind, opposite if call.name == "-" else kind][-len(args) :]
    if is_float(type_of(call)) and not _is_shift(call):
        return None
    bounds = [_bound(arg, side) for arg, side in zip(args, kinds, strict=True)]
    return None if None in bounds else call.rebuild(tuple(bounds))


def _is_shift(call: Call) -> bool:
    """Whether a number is moved by a finite constant: infinities could cancel to NaN."""
    constants = [arg.value for arg in call.args if isinstance(arg, Literal)]
    if call.name == "-" and any(_may_be_nan(arg) for arg in call.args):
        return False
    return len(call.args) - len(constants) == 1 and all(map(math.isfinite, constants))


def _has_bounds(column: Column) -> bool:
    """Whether bounds of a column are trusted, and in the order of its comparisons."""
    kind = type_of(column)
    if str(kind) == "boolean":  # some writers swap the bounds of booleans
        return column.is_partition
    return is_number(kind) or is_string(kind) or str(kind) in TIMES


# --- NaN ----------------------------------------------------------------------------------------


class _Number(Column):
    """A column known not to be NaN where this condition matters."""

    __slots__ = ()


def not_nan(arm: Predicate) -> tuple[Value, ...]:
    """Return the columns that cannot be NaN where the condition is TRUE."""
    match arm:
        case Compare("<" | "<=" | "=" | "<=>", Column() as column, Literal() as right):
            usable = not is_nan(right) or getattr(arm, "op", "") == "<"
        case In(Column() as column, options):
            usable = not any(is_nan(option) for option in options)
        case _:
            return ()
    return (column,) if usable and is_float(type_of(column)) else ()


def mark_numbers(arm: Predicate, numbers: frozenset[Value]) -> Predicate:
    """Return the condition, knowing that these columns are not NaN where it matters."""
    if not numbers:
        return arm
    return substitute(arm, lambda c: _Number(c.path, c.type, c.is_partition) if c in numbers else c)


def _may_be_nan(value: Value) -> bool:
    """Whether NaN may hide behind the bounds of the value."""
    return is_float(type_of(value)) and any(
        isinstance(part, Column)
        and not isinstance(part, _Number)
        and is_float(type_of(part))
        and not part.is_partition
        for part in value.walk()
    )


def is_nan(value: Value) -> bool:
    """Whether this is the constant NaN."""
    return (
        isinstance(value, Literal) and isinstance(value.value, float) and value.value != value.value
    )


def _may_be_truncated(left: Value, right: Value) -> bool:
    """Whether strings may be so long that their statistics hold only a prefix."""
    if not is_string(type_of(left)):
        return False
    return not isinstance(right, Literal) or len(str(right.value)) >= _TRUNCATED


def substitute(node: Predicate, change: Callable[[Column], Value]) -> Predicate:
    """Return the predicate with every column changed."""
    return _changed(node, change)  # type: ignore[return-value]


def _changed(node: Node, change: Callable[[Column], Value]) -> Node:
    if isinstance(node, Column):
        return change(node)
    return node.rebuild(tuple(_changed(part, change) for part in node.parts()))
