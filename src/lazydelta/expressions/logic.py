"""Structure of predicates: conjunctions, disjunctions, negation, and NULL propagation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.expressions.nodes.predicates import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.expressions.nodes.base import Node

__all__ = ["conjuncts", "join_and", "join_or", "negation", "required_columns", "split_conjuncts"]

_NULL_TOLERANT = (
    *("case", "coalesce", "greatest", "isnan", "least", "concat_ws", "hash", "xxhash64"),
    *("array", "map", "named_struct"),
)
"""Functions that may have a value though an argument is NULL."""
_EXACT_NODES = (And, Or, Not, Compare, In, IsNull, Column, Literal)


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """Return the conditions that must all be true."""
    if predicate is None:
        return ()
    if not isinstance(predicate, And):
        return (predicate,)
    return tuple(part for arm in predicate.arms for part in conjuncts(arm))


def split_conjuncts(bound: Predicate) -> tuple[Predicate | None, Predicate | None]:
    """Split into conditions that partition values alone decide exactly, and the rest.

    The first are plain comparisons of partition columns. Functions, casts and patterns are left
    to the row filter.
    """
    parts = conjuncts(bound)
    exact = [part for part in parts if _is_partition_exact(part)]
    rest = [part for part in parts if not _is_partition_exact(part)]
    return (join_and(exact) if exact else None), (join_and(rest) if rest else None)


def join_and(arms: Sequence[Predicate]) -> Predicate:
    """Return the conjunction, without redundant constants."""
    return _join(And, arms, False)


def join_or(arms: Sequence[Predicate]) -> Predicate:
    """Return the disjunction, without redundant constants."""
    return _join(Or, arms, True)


def _join(kind: type[And | Or], arms: Sequence[Predicate], decisive: bool) -> Predicate:
    kept: list[Predicate] = []
    for arm in arms:
        if arm == Constant(decisive):
            return arm
        if arm != Constant(not decisive):
            kept.extend(arm.arms if isinstance(arm, kind) else (arm,))
    if not kept:
        return Constant(not decisive)
    unique = tuple(dict.fromkeys(kept))
    return unique[0] if len(unique) == 1 else kind(unique)


def negation(inner: Predicate) -> Predicate:
    """Return NOT of a predicate, simplified."""
    if isinstance(inner, Constant):
        return Constant(None if inner.value is None else not inner.value)
    return inner.predicate if isinstance(inner, Not) else Not(inner)


def required_columns(node: Node) -> frozenset[Column]:
    """Return columns without a value of which the expression is NULL."""
    match node:
        case Column():
            return frozenset({node})
        case Call("nullif", args):
            return required_columns(args[0])
        case Call(name) if name in _NULL_TOLERANT:
            return frozenset()
        case Compare("<=>"):
            return frozenset()
        case Cast() | Call() | Compare() | Not() | Like() | In():
            return frozenset().union(*map(required_columns, node.parts()))
    return frozenset()


def _is_partition_exact(part: Predicate) -> bool:
    nodes = tuple(part.walk())
    columns = [node for node in nodes if isinstance(node, Column)]
    plain = all(
        isinstance(node, _EXACT_NODES) and not (isinstance(node, Compare) and node.op == "<=>")
        for node in nodes
    )
    decided = all(c.is_partition and not str(c.type).startswith("string collate") for c in columns)
    return bool(columns) and plain and decided
