"""Bind an expression to a schema: resolve columns, type every node, insert implicit casts.

One binder for filters and for expressions in table metadata. `coercion` has the type rules,
`literals` converts literals, and constant subexpressions are computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.expressions.calls import bind_call
from lazydelta.expressions.coercion import (
    BOOLEAN,
    VOID,
    common_type,
    is_exact_number,
    is_flat,
    is_float,
    is_string,
    loose,
    type_of,
)
from lazydelta.expressions.functions import ALIASES, CURRENT
from lazydelta.expressions.implicit_casts import cast_to, common, computed, folded, uncommon
from lazydelta.expressions.literal_comparison import (
    FLIPPED,
    compare_literal,
    fit_options,
    read_string,
)
from lazydelta.expressions.logic import join_and, join_or, negation
from lazydelta.expressions.nodes.patterns import split_pattern
from lazydelta.expressions.nodes.predicates import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Not,
    Or,
    Predicate,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal
from lazydelta.expressions.quoting import resolve_quotes
from lazydelta.expressions.statement_time import current_value, statement_time
from lazydelta.schema import PrimitiveType, StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType, StructField

__all__ = ["bind", "bind_value"]

_MAX_DEPTH = 100
_COLLATIONS = "__COLLATIONS"
_ESCAPED = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def bind(predicate: Predicate, schema: StructType, partition_columns: Sequence[str]) -> Predicate:
    """Return the predicate with columns resolved, values typed and literals converted.

    Args:
        predicate: As built or parsed.
        schema: The table's logical schema.
        partition_columns: Logical names of the partition columns.

    Raises:
        ColumnNotFoundError: A name is not in the schema; the message lists near matches.
        PredicateError: Values that cannot be compared, or an unknown function.
    """
    bound = bind_value(predicate, schema, partition_columns)
    if not isinstance(bound, Predicate):
        raise PredicateError(str(predicate), "it is not a condition")
    return bound


def bind_value(
    value: Value,
    schema: StructType,
    partition_columns: Sequence[str] = (),
    *,
    strict: bool = False,
    now: int | None = None,
) -> Value:
    """Return an expression of any type, bound.

    Args:
        value: As built or parsed.
        schema: The table's logical schema.
        partition_columns: Logical names of the partition columns.
        strict: Whether to refuse what depends on the mode or time zone of a Spark session, and
            to leave arithmetic as it is, so that overflow fails.
        now: The time of the statement, in microseconds since 1970; None is the time of this call.
    """
    _check_depth(value)
    binder = _Binder(schema, partition_columns, strict=strict, now=now)
    return binder.value(resolve_quotes(value, binder.has_column, binder.is_valid))


class _Binder:
    """One binding to one schema."""

    def __init__(
        self,
        schema: StructType,
        partition_columns: Sequence[str],
        *,
        strict: bool,
        now: int | None,
    ) -> None:
        self.schema = schema
        self.partitions = {name.lower() for name in partition_columns}
        self.strict = strict
        self.now = statement_time() if now is None else now

    def has_column(self, name: str) -> bool:
        try:
            return bool(self.schema.find((name,)))
        except ColumnNotFoundError:
            return False

    def is_valid(self, value: Value) -> bool:
        try:
            self.value(value)
        except (ColumnNotFoundError, PredicateError):
            return False
        return True

    # --- predicates

    def predicate(self, node: Predicate) -> Predicate:  # noqa: PLR0911 - one per node
        match node:
            case And(arms):
                return join_and([self.predicate(arm) for arm in arms])
            case Or(arms):
                return join_or([self.predicate(arm) for arm in arms])
            case Not(inner):
                return negation(self.predicate(inner))
            case IsTrue(inner):
                return folded(IsTrue(self.predicate(inner)))
            case IsNull(operand):
                return folded(IsNull(self.value(operand, nested=True)))
            case Compare(op, left, right):
                return self.compare(op, self.value(left), self.value(right))
            case In(value, options):
                return self.is_in(self.value(value), options)
            case Like(value, pattern, escape):
                return self.like(self.value(value), pattern, escape)
            case Constant():
                return node
        raise PredicateError(str(node), "this cannot be part of an expression on rows")

    def compare(self, op: str, left: Value, right: Value) -> Predicate:
        for side in (left, right):
            reason = f"values of type {type_of(side)} cannot be compared"
            _require(is_flat(type_of(side)), f"{left} {op} {right}", reason)
        if isinstance(left, Literal) and not isinstance(right, Literal):
            op, left, right = FLIPPED[op], right, left
        if VOID in (type_of(left), type_of(right)) or _is_null(left) or _is_null(right):
            known = left if _is_null(right) or type_of(right) == VOID else right
            return folded(IsNull(known)) if op == "<=>" else Constant(None)
        if isinstance(left, Predicate) and isinstance(right, Literal) and right.type == BOOLEAN:
            wanted = left if right.value == (op != "!=") else negation(left)
            if op in ("=", "!="):
                return wanted
            if op == "<=>":
                return folded(IsTrue(wanted))
        if isinstance(right, Literal) and not isinstance(left, Literal):
            return self.compare_literal(op, left, right)
        constants = isinstance(left, Literal) and isinstance(right, Literal) and not self.strict
        of = f"{left} {op} {right}"
        pair = common((left, right), of, strict=self.strict, is_choice=constants)
        return folded(Compare(op, *pair))

    def compare_literal(self, op: str, left: Value, right: Literal) -> Predicate:
        checked = self.strict_literal(left, right)
        if self.strict and is_float(checked.type) and is_exact_number(type_of(left)):
            return Compare(op, *common((left, checked), f"{left} {op} {right}", strict=self.strict))
        try:
            return compare_literal(op, left, checked, solve=not self.strict)
        except PredicateError as error:
            raise PredicateError(f"{left} {op} {right}", error.reason) from None

    def strict_literal(self, value: Value, literal: Literal) -> Literal:
        """Return the literal as Spark compares it, where that does not depend on the mode."""
        kind = type_of(value)
        if not self.strict or literal.value is None or is_string(kind):
            return literal
        if is_string(literal.type):
            return Literal(read_string(value, literal, kind), kind)
        if common_type(value, literal, strict=True) is None:
            _refuse(f"{value}, {literal}", uncommon(value, literal))
        return literal

    def is_in(self, value: Value, options: tuple[Value, ...]) -> Predicate:
        bound = tuple(self.value(option) for option in options)
        literals = tuple(option for option in bound if isinstance(option, Literal))
        if isinstance(value, Literal) or len(literals) < len(bound):
            return join_or([self.compare("=", value, option) for option in bound])
        literals = tuple(self.strict_literal(value, option) for option in literals)
        return fit_options(value, literals, solve=not self.strict)

    def like(self, value: Value, pattern: str, escape: str) -> Predicate:
        shown = f"{value} LIKE {pattern!r}"
        _require(is_string(type_of(value)), shown, f"{type_of(value)} is not a string")
        _require(len(escape) == 1, shown, "ESCAPE needs one character")
        split_pattern(pattern, escape)
        return folded(Like(value, pattern, escape))

    # --- values

    def value(self, node: Value, *, nested: bool = False) -> Value:
        match node:
            case Predicate():
                return self.predicate(node)
            case Column(path):
                return self.column(path, nested=nested)
            case Literal():
                _check_surrogates(node)
                return node
            case Cast(inner, kind, safe):
                source = self.value(inner)
                found = cast_to(source, kind, strict=self.strict, safe=safe)
                if found is None or (safe and self.strict):
                    _refuse(node, f"a {type_of(source)} cannot be cast to {kind}")
                return found
            case Call("interval"):
                _refuse(node, "an interval is added to a date or timestamp, or subtracted from one")
            case Call():
                return computed(self.call(node))
        raise PredicateError(str(node), "this cannot be part of an expression on rows")

    def column(self, path: tuple[str, ...], *, nested: bool) -> Column:
        fields = self.schema.find(path)
        kind = loose(_collated(fields[-1]))
        if not nested and not is_flat(kind) and (self.strict or str(kind) == "variant"):
            _refuse(Column(path), f"values of type {kind} cannot be compared")
        if self.strict and "collate" in str(kind):
            _refuse(Column(path), "strings with a collation are not supported")
        names = tuple(part.name for part in fields)
        in_partition = len(names) == 1 and names[0].lower() in self.partitions
        return Column(names, kind, in_partition)

    def call(self, node: Call) -> Value:
        name = ALIASES.get(node.name, node.name)
        if name in ("isnull", "isnotnull") and len(node.args) == 1:
            test = self.predicate(IsNull(node.args[0]))
            return test if name == "isnull" else negation(test)
        if name in CURRENT and not node.args:
            _require(not self.strict, node, "its value changes with time")
            return current_value(name, self.now)
        args = tuple(arg if _is_interval(arg, name) else self.value(arg) for arg in node.args)
        bound = bind_call(node, name, args, strict=self.strict)
        if isinstance(bound, Call) and bound.name == "startswith":
            start = bound.args[1]
            if isinstance(start, Literal) and isinstance(start.value, str):  # for data skipping
                return self.like(bound.args[0], start.value.translate(_ESCAPED) + "%", "\\")
        return computed(bound)


def _is_interval(value: Value, name: str) -> bool:
    return name in ("+", "-") and isinstance(value, Call) and value.name == "interval"


def _is_null(value: Value) -> bool:
    return isinstance(value, Literal) and value.value is None


def _collated(field: StructField) -> DataType:
    """Return a type of its own for a column with a collation, which has another order."""
    collations = field.metadata.get(_COLLATIONS)
    names = collations.values() if isinstance(collations, dict) else ()
    odd = [name for name in names if not str(name).endswith("UTF8_BINARY")]
    if odd and field.type == PrimitiveType("string"):
        return PrimitiveType(f"string collate {odd[0]}")
    return field.type


def _check_surrogates(literal: Literal) -> None:
    if not isinstance(literal.value, str):
        return
    try:
        literal.value.encode()
    except UnicodeEncodeError:
        raise PredicateError(ascii(literal.value), "it holds half a surrogate pair") from None


def _check_depth(value: Value) -> None:
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        level = [part for node in level for part in node.parts()]
        if not level:
            return
    raise PredicateError("...", f"it is nested more than {_MAX_DEPTH} deep")


def _require(fine: object, node: object, reason: str) -> None:
    if not fine:
        _refuse(node, reason)


def _refuse(node: object, reason: str) -> NoReturn:
    raise PredicateError(str(node), reason)
