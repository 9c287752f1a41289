"""Fit a predicate to a schema: find its columns, give every value a type, make sides comparable.

Constants are brought to the type of what they are compared with, exactly: a constant that the
type cannot hold moves the comparison to its neighbour (`int_col < 10.5` is `int_col <= 10`) or
decides it (`byte_col < 1000` holds wherever there is a value). Nothing wraps and nothing is
rounded, except that numbers compared with doubles become doubles, as in Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import PredicateError
from lazydelta.expressions.arrow import evaluate, evaluate_value
from lazydelta.expressions.coerce import compare_constant, fit_options, unify
from lazydelta.expressions.functions import is_text, type_call, type_cast, type_of
from lazydelta.expressions.nodes import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    Stat,
    Value,
)
from lazydelta.expressions.patterns import split_pattern
from lazydelta.schema import PrimitiveType, StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lazydelta.schema import DataType, StructField

__all__ = [
    "bind",
    "bind_value",
    "conjuncts",
    "constant_of",
    "join_and",
    "join_or",
    "split_conjuncts",
]

_MAX_DEPTH = 128
_FLIPPED = {"=": "=", "<=>": "<=>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COLLATIONS = "__COLLATIONS"
_EXACT_NODES = (And, Or, Not, Compare, In, IsNull, Column, Literal)


def bind(predicate: Predicate, schema: StructType, partition_columns: Sequence[str]) -> Predicate:
    """Return the predicate with columns found, values typed and constants made to fit.

    Args:
        predicate: As built or parsed.
        schema: The table's logical schema.
        partition_columns: Logical names of the partition columns.

    Raises:
        ColumnNotFoundError: A name is not in the schema; the message lists near matches.
        PredicateError: Values that cannot be compared, or an unknown function.
    """
    _check_depth(predicate)
    return _Binder(schema, partition_columns).predicate(predicate)


def bind_value(value: Value, schema: StructType, partition_columns: Sequence[str]) -> Value:
    """Return a value with its columns found and typed, as `bind` does for predicates."""
    return _Binder(schema, partition_columns).value(value)


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """Return the conditions that must all be true."""
    if predicate is None:
        return ()
    if not isinstance(predicate, And):
        return (predicate,)
    return tuple(part for arm in predicate.arms for part in conjuncts(arm))


def split_conjuncts(bound: Predicate) -> tuple[Predicate | None, Predicate | None]:
    """Split into what partition values alone decide exactly, and the rest.

    A condition is decided if it names partition columns only, at least one, and compares them
    plainly: functions, casts and patterns are left to whoever filters rows.
    """
    parts = conjuncts(bound)
    exact = [part for part in parts if _is_partition_exact(part)]
    rest = [part for part in parts if not _is_partition_exact(part)]
    return (join_and(exact) if exact else None), (join_and(rest) if rest else None)


def join_and(arms: Sequence[Predicate]) -> Predicate:
    """Return the conjunction, without constants that do not matter."""
    return _join(And, arms, False)


def join_or(arms: Sequence[Predicate]) -> Predicate:
    """Return the disjunction, without constants that do not matter."""
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


class _Binder:
    """One bind against one schema."""

    def __init__(self, schema: StructType, partition_columns: Sequence[str]) -> None:
        self.schema = schema
        self.partitions = {name.lower() for name in partition_columns}

    def predicate(self, node: Predicate) -> Predicate:  # noqa: PLR0911 - one per node
        match node:
            case And(arms):
                return join_and([self.predicate(arm) for arm in arms])
            case Or(arms):
                return join_or([self.predicate(arm) for arm in arms])
            case Not(inner):
                return _negated(self.predicate(inner))
            case IsTrue(inner):
                bound = self.predicate(inner)
                return _folded(IsTrue(bound)) if isinstance(bound, Constant) else IsTrue(bound)
            case IsNull(operand):
                return self.is_null(operand)
            case Compare(op, left, right):
                return self.compare(op, self.value(left), self.value(right))
            case In(value, options):
                return self.is_in(self.value(value), options)
            case Like(value, pattern, escape):
                return self.like(self.value(value), pattern, escape)
            case Constant():
                return node
        raise PredicateError(str(node), "this cannot be part of a predicate on rows")

    def is_null(self, operand: Value | Predicate) -> Predicate:
        if isinstance(operand, Predicate):
            bound = self.predicate(operand)
            return _folded(IsNull(bound)) if isinstance(bound, Constant) else IsNull(bound)
        value = self.value(operand, nested=True)
        return _folded(IsNull(value)) if isinstance(value, Literal) else IsNull(value)

    def compare(self, op: str, left: Value, right: Value) -> Predicate:
        if isinstance(left, Literal) and not isinstance(right, Literal):
            op, left, right = _FLIPPED[op], right, left
        if isinstance(right, Literal) and right.value is None:
            if op != "<=>":
                return Constant(None)
            return _folded(IsNull(left)) if isinstance(left, Literal) else IsNull(left)
        if isinstance(right, Literal) and not isinstance(left, Literal):
            return compare_constant(op, left, right)
        if isinstance(left, Literal) and left.value is None:
            return Constant(False if op == "<=>" else None)
        bound = Compare(op, *unify(left, right))
        return _folded(bound) if isinstance(left, Literal) else bound

    def is_in(self, value: Value, options: tuple[Literal, ...]) -> Predicate:
        if isinstance(value, Literal):
            return join_or([self.compare("=", value, option) for option in options])
        return fit_options(value, options)

    def like(self, value: Value, pattern: str, escape: str) -> Predicate:
        if not is_text(type_of(value)):
            raise PredicateError(f"{value} LIKE {pattern!r}", f"{type_of(value)} is no text")
        if len(escape) != 1:
            raise PredicateError(f"{value} LIKE {pattern!r}", "ESCAPE needs one character")
        split_pattern(pattern, escape)
        bound = Like(value, pattern, escape)
        return _folded(bound) if isinstance(value, Literal) else bound

    def value(self, node: Value, *, nested: bool = False) -> Value:
        match node:
            case Column(path):
                return self.column(path, nested=nested)
            case Literal():
                _check_text(node)
                return node
            case Cast(inner, kind):
                return _folded_value(type_cast(Cast(self.value(inner), kind)))
            case Call(name, args):
                bound = type_call(Call(name, tuple(self.value(arg) for arg in args)))
                return _folded_value(bound)
        raise PredicateError(str(node), "this cannot be part of a predicate on rows")

    def column(self, path: tuple[str, ...], *, nested: bool) -> Column:
        fields = self.schema.find(path)
        kind = _collated(fields[-1])
        if not nested and not _is_comparable(kind):
            raise PredicateError(Column(path).name, f"values of type {kind} cannot be compared")
        names = tuple(part.name for part in fields)
        in_partition = len(names) == 1 and names[0].lower() in self.partitions
        return Column(names, kind, in_partition)


def _negated(inner: Predicate) -> Predicate:
    if isinstance(inner, Constant):
        return Constant(None if inner.value is None else not inner.value)
    return inner.predicate if isinstance(inner, Not) else Not(inner)


def _no_column(ref: Column | Stat) -> pa.Array:
    raise PredicateError(str(ref), "a constant was expected")


def _folded(predicate: Predicate) -> Constant:
    return Constant(evaluate(predicate, _no_column, 1)[0].as_py())


def _folded_value(value: Value) -> Value:
    """Compute a value that needs no row."""
    if isinstance(value, Literal) or any(isinstance(n, (Column, Stat)) for n in value.walk()):
        return value
    return constant_of(value)


def constant_of(value: Value) -> Literal:
    """Return a bound value that names no column, computed."""
    found = evaluate_value(value, _no_column, 1)
    kind = type_of(value)
    if str(kind) == "date":
        found = found.view("int32")
    elif str(kind) in ("timestamp", "timestamp_ntz"):
        found = found.view("int64")
    return Literal(found[0].as_py(), kind)


def _collated(field: StructField) -> DataType:
    """Give a column with a collation a type of its own: its order is not that of the texts."""
    collations = field.metadata.get(_COLLATIONS)
    names = collations.values() if isinstance(collations, dict) else ()
    odd = [name for name in names if not str(name).endswith("UTF8_BINARY")]
    if odd and field.type == PrimitiveType("string"):
        return PrimitiveType(f"string collate {odd[0]}")
    return field.type


def _is_comparable(kind: DataType) -> bool:
    return not isinstance(kind, StructType) and not str(kind).startswith(("array<", "map<"))


def _check_text(literal: Literal) -> None:
    if not isinstance(literal.value, str):
        return
    try:
        literal.value.encode()
    except UnicodeEncodeError:
        raise PredicateError(ascii(literal.value), "it holds half a surrogate pair") from None


def _check_depth(predicate: Predicate) -> None:
    level: list[Any] = [predicate]
    for _ in range(_MAX_DEPTH):
        level = [part for node in level for part in node.parts()]
        if not level:
            return
    raise PredicateError("...", f"it is nested more than {_MAX_DEPTH} deep")


def _is_partition_exact(part: Predicate) -> bool:
    nodes = tuple(part.walk())
    columns = [node for node in nodes if isinstance(node, Column)]
    plain = all(
        isinstance(node, _EXACT_NODES) and not (isinstance(node, Compare) and node.op == "<=>")
        for node in nodes
    )
    decided = all(c.is_partition and not str(c.type).startswith("string collate") for c in columns)
    return bool(columns) and plain and decided
