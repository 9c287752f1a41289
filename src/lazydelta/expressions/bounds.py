"""What the bounds of a file's columns say about values made from them.

`lower` and `upper` give, for a value of the rows, an expression over statistics that no row of
the file is below or above. The other functions are what a comparison of such bounds can rule out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lazydelta.expressions.binding import join_or
from lazydelta.expressions.functions import is_exact_number, is_float, is_text, keeps_order, type_of
from lazydelta.expressions.nodes import (
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    In,
    Literal,
    Node,
    Predicate,
    Stat,
    Value,
)
from lazydelta.schema import PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Callable

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

_INTEGER = PrimitiveType("integer")
_TRUE = Constant(True)
_CUT_TEXT = 32
"""Statistics of texts are cut to this many characters by default."""


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
    if is_float(type_of(left)) or _may_be_cut(left, right):
        return _TRUE
    pairs = (lower(left), upper(right)), (upper(left), lower(right))
    arms = [Compare("!=", a, b) for a, b in pairs if a is not None and b is not None and a != b]
    return join_or(arms) if len(arms) == 2 else _TRUE


def if_single(node: Predicate) -> Predicate:
    """Return when a condition on one column may be TRUE, from files that hold one value of it.

    Any condition will do that is not TRUE for NULL: if `min` and `max` are the same, it is
    decided by that value.
    """
    columns = {part for part in node.walk() if isinstance(part, Column)}
    if len(columns) != 1:
        return _TRUE
    column = columns.pop()
    low, high = lower(column), upper(column)
    if low is None or high is None or str(column.type).startswith("timestamp"):
        return _TRUE  # timestamps are cut, so one value in the statistics may be many in the file
    arms: list[Predicate] = [Compare("!=", low, high)]
    if is_text(type_of(column)):
        arms.append(
            Compare(
                ">=",
                Call("length", (low,), _INTEGER),
                Literal(_CUT_TEXT, _INTEGER),
            )
        )
    return join_or([*arms, substitute(node, lambda _: low)])


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
            inner = keeps_order(value)
            bound = None if inner is None else _bound(inner, kind)
            if bound is None or inner is None:
                return None
            return value.rebuild(tuple(bound if p is inner else p for p in value.parts()))
    return None


def _sum_bound(call: Call, args: tuple[Value, ...], kind: str) -> Value | None:
    """Bound a sum by the sum of bounds; what is taken away counts the other way round."""
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
    """Whether the writers of statistics keep bounds of such a column, in the order we compare."""
    kind = type_of(column)
    ordered = ("boolean", "date", "timestamp", "timestamp_ntz")
    return is_exact_number(kind) or is_float(kind) or is_text(kind) or str(kind) in ordered


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


def _may_be_cut(left: Value, right: Value) -> bool:
    """Whether two texts may be so long that their statistics hold only how they begin."""
    if not is_text(type_of(left)):
        return False
    return not isinstance(right, Literal) or len(str(right.value)) >= _CUT_TEXT


def substitute(node: Predicate, change: Callable[[Column], Value]) -> Predicate:
    """Return the predicate with every column changed."""
    return _changed(node, change)  # type: ignore[return-value]


def _changed(node: Node, change: Callable[[Column], Value]) -> Node:
    if isinstance(node, Column):
        return change(node)
    return node.rebuild(tuple(_changed(part, change) for part in node.parts()))
