"""The ON condition of a MERGE, split by what can be done with each conjunct.

Equalities between the sides are the join key. Conjuncts over the target alone prune and filter its
files. All others are evaluated on the pairs that the key finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate
from lazydelta.expressions.nodes import And, Cast, Column, Compare, Constant
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Value
    from lazydelta.operations.dml.merge.joined_rows import JoinedSchema
    from lazydelta.scan import Where
    from lazydelta.schema import DataType

__all__ = ["Condition", "KeyPair", "split_condition", "target_predicate"]

_INTEGERS = frozenset(INTEGER_RANGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """An equality of the join key; both sides have one type."""

    target: Value
    source: Value
    type: DataType
    null_safe: bool
    """Whether NULL equals NULL: `<=>`."""
    target_path: tuple[str, ...] | None
    """The column of the table whose bounds are those of the key; None for other expressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The ON condition."""

    sql: str
    keys: tuple[KeyPair, ...]
    residual: Predicate | None
    """Bound to the joined schema; for pairs that agree in the key."""
    target_only: Predicate | None
    """Over the target's own columns, not bound; true of every row that can match."""


def split_condition(on: Where, schema: JoinedSchema) -> Condition:
    """Bind and split the ON condition.

    Raises:
        PredicateError: There is none, or it is not supported.
        ColumnNotFoundError: It names a column that neither side has.
    """
    predicate = as_predicate(on, now=schema.now)
    if predicate is None:
        raise PredicateError("", 'MERGE needs a condition, as in on="t.id = s.id"')
    keys, residual, target_only = [], [], []
    for part in _conjuncts(predicate):
        bound = schema.bind(part)
        key = _key_pair(bound, schema)
        if key is not None:
            keys.append(key)
        elif _sides(bound, schema) == {schema.target_alias}:
            target_only.append(target_predicate(part, schema))
        elif bound != Constant(True):
            residual.append(bound)
    return Condition(
        sql=str(predicate),
        keys=tuple(keys),
        residual=_all(residual),
        target_only=_all(target_only),
    )


def target_predicate(predicate: Predicate, schema: JoinedSchema) -> Predicate:
    """Return a condition on the target's columns without its alias, not bound."""

    def renamed(node: Any) -> Any:
        if isinstance(node, Column):
            return Column(schema.resolve(node.path)[1])
        return node.rebuild(tuple(map(renamed, node.parts())))

    found: Predicate = renamed(predicate)
    return found


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if not isinstance(predicate, And):
        yield predicate
        return
    for arm in predicate.arms:
        yield from _conjuncts(arm)


def _key_pair(bound: Predicate, schema: JoinedSchema) -> KeyPair | None:
    if not isinstance(bound, Compare) or bound.op not in ("=", "<=>"):
        return None
    pair = (bound.left, bound.right)
    if any("collate" in str(getattr(side, "type", "")) for side in pair):
        return None
    sides = [_sides(side, schema) for side in pair]
    for target, source in ((0, 1), (1, 0)):
        if sides[target] == {schema.target_alias} and sides[source] == {schema.source_alias}:
            return KeyPair(
                target=pair[target],
                source=pair[source],
                type=pair[target].type,  # type: ignore[attr-defined]
                null_safe=bound.op == "<=>",
                target_path=_bounded_path(pair[target], schema),
            )
    return None


def _bounded_path(key: Value, schema: JoinedSchema) -> tuple[str, ...] | None:
    """Return the path of a column, also of one that is cast to a wider integer type."""
    column = key.value if isinstance(key, Cast) and str(key.type) in _INTEGERS else key
    if not isinstance(column, Column) or (column is not key and str(column.type) not in _INTEGERS):
        return None
    return schema.resolve(column.path)[1]


def _sides(node: Any, schema: JoinedSchema) -> set[str]:
    columns = (part for part in node.walk() if isinstance(part, Column))
    return {schema.resolve(column.path)[0] for column in columns}


def _all(parts: Sequence[Predicate]) -> Predicate | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))
