"""Conditions on generated partition columns, derived from conditions on their source columns.

If `day` is generated as `CAST(ts AS DATE)`, a row with `ts < v` lies in a partition with
`day <= CAST(v AS DATE)`. The derived condition is on the partition value, so it is exact and
needs no statistics. It never drops on NULL: a generated value may be missing.

Writers compute `CAST(ts AS DATE)` in the time zone of their session, which the table does not
record. The same holds for everything that passes through a zoned timestamp, such as `date_trunc`
of a date. There the literal is moved by a day in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lazydelta.errors import PredicateError, SchemaError
from lazydelta.expressions import tuning
from lazydelta.expressions.binding import bind_value
from lazydelta.expressions.coercion import type_of
from lazydelta.expressions.implicit_casts import constant_of
from lazydelta.expressions.literal_comparison import compare_literal
from lazydelta.expressions.logic import join_and, join_or, required_columns
from lazydelta.expressions.monotonic import monotonic_argument
from lazydelta.expressions.nodes.base import Node, Value
from lazydelta.expressions.nodes.predicates import Compare, Constant, In, IsNull, Predicate
from lazydelta.expressions.nodes.value_nodes import Call, Column, Literal, Stat
from lazydelta.expressions.parser import parse_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.schema import StructType

__all__ = ["Derivation", "derivations"]

_EXPRESSION = "delta.generationExpression"
_DAYS = {"date": 1, "timestamp": 86_400_000_000, "timestamp_ntz": 86_400_000_000}
"""The length of a day in the units of each type."""
_ZONED_CALLS = ("date_trunc", "date_format")
"""Spark casts their argument to a timestamp with time zone."""
_TRUE = Constant(True)
_FIELDS = ("year", "month", "day", "hour")


@dataclass(frozen=True, slots=True)
class Derivation:
    """Partition columns generated from one source; several only as year, month, day, hour.

    As a tuple they keep the order of the source if each one does, or if they are the fields of a
    timestamp from the year down.
    """

    source: Column
    partitions: tuple[Column, ...]
    expressions: tuple[Value, ...]
    ordered: bool

    def implied(self, condition: Predicate) -> Predicate:
        """Return what holds for the partition if the condition is TRUE for one of its rows."""
        match condition:
            case IsNull(operand) if operand == self.source:
                pairs = zip(self.partitions, self.expressions, strict=True)
                nulls = [c for c, made in pairs if self.source in required_columns(made)]
                return join_and([IsNull(_stat(column)) for column in nulls])
            case Compare(op, left, Literal() as right) if left == self.source:
                return self._compare(op, right)
            case In(value, options) if (
                value == self.source and len(options) <= tuning.MAX_DERIVED_OPTIONS
            ):
                given = [option for option in options if option.value is not None]
                return join_or([self._compare("=", option) for option in given])
        return _TRUE

    def _compare(self, op: str, constant: Literal) -> Predicate:
        if op in ("=", "<=>") and not self._is_zoned:
            return self._equal(constant)
        knows_days = str(self.source.type) in _DAYS
        if not self.ordered or op == "!=" or (self._is_zoned and not knows_days):
            return _TRUE
        arms = []
        if op in ("<", "<=", "=", "<=>"):
            arms.append(self._bounded("<", self._values(constant, 1)))
        if op in (">", ">=", "=", "<=>"):
            arms.append(self._bounded(">", self._values(constant, -1)))
        return join_and(arms)

    @property
    def _is_zoned(self) -> bool:
        nodes = [node for expression in self.expressions for node in expression.walk()]
        return any(
            str(getattr(node, "type", None)) == "timestamp"
            or (isinstance(node, Call) and node.name in _ZONED_CALLS)
            for node in nodes
        )

    def _equal(self, constant: Literal) -> Predicate:
        values = self._values(constant, 0)
        pairs = zip(self.partitions, values, strict=True)
        return join_and([_test("=", column, value) for column, value in pairs])

    def _bounded(self, op: str, values: Sequence[Literal]) -> Predicate:
        """Compare as a whole: by the first column, and where that is equal by the next."""
        result: Predicate = _TRUE
        pairs = tuple(zip(self.partitions, values, strict=True))
        for at, (column, value) in enumerate(reversed(pairs)):
            if at == 0:
                result = _test(op + "=", column, value)
            else:
                same = join_and([_test("=", column, value), result])
                result = join_or([_test(op, column, value), same])
        return result

    def _values(self, constant: Literal, days: int) -> list[Literal]:
        """Compute the expressions for a constant, moved by days if an unknown zone matters.

        What is a zoned timestamp in the end is moved once more: the first instant of a month, say,
        is another one in every zone.
        """
        if not self._is_zoned:
            days = 0
        at = _moved(Literal(constant.value, type_of(self.source)), days)
        computed = [_computed(expression, self.source, at) for expression in self.expressions]
        return [
            _moved(value, days) if str(value.type) == "timestamp" else value for value in computed
        ]


def derivations(schema: StructType, partition_columns: Sequence[str]) -> tuple[Derivation, ...]:
    """Return the derivations of the generated partition columns of a table."""
    derivations: list[Derivation] = []
    for name in partition_columns:
        field = schema.get(name)
        sql = None if field is None else field.metadata.get(_EXPRESSION)
        if isinstance(sql, str):
            derivations.extend(_derive(name, sql, schema, partition_columns))
    return (*derivations, *_calendars(derivations))


def _derive(
    name: str, sql: str, schema: StructType, partition_columns: Sequence[str]
) -> list[Derivation]:
    """Bind one generation expression; an unsupported one derives nothing."""
    try:
        column = bind_value(Column((name,)), schema, partition_columns)
        expression = bind_value(parse_expression(sql), schema, partition_columns, strict=True)
    except (PredicateError, SchemaError):
        return []
    sources = {node for node in expression.walk() if isinstance(node, Column)}
    if len(sources) != 1 or not isinstance(column, Column):
        return []
    source = sources.pop()
    return [Derivation(source, (column,), (expression,), _is_ordered(expression, source))]


def _calendars(derivations: Sequence[Derivation]) -> list[Derivation]:
    """Join year, month, day and hour of one source: alone, only the year is in its order."""
    parts: dict[Column, dict[str, Derivation]] = {}
    for derivation in derivations:
        expression = derivation.expressions[0]
        if isinstance(expression, Call) and expression.args[0] == derivation.source:
            parts.setdefault(derivation.source, {})[expression.name] = derivation
    joined = []
    for source, fields in parts.items():
        chain = []
        for name in _FIELDS:
            if name not in fields:
                break
            chain.append(fields[name])
        if len(chain) > 1:
            columns = tuple(d.partitions[0] for d in chain)
            values = tuple(d.expressions[0] for d in chain)
            joined.append(Derivation(source, columns, values, ordered=True))
    return joined


def _is_ordered(expression: Value, source: Column) -> bool:
    at: Value | None = expression
    while at is not None and at != source:
        at = monotonic_argument(at) if isinstance(at, Node) and at.parts() else None  # type: ignore[arg-type]
    return at is not None


def _computed(expression: Value, source: Column, at: Literal) -> Literal:
    def replaced(node: Value) -> Value:
        return at if node == source else node.rebuild(tuple(map(replaced, node.parts())))  # type: ignore[arg-type]

    value = replaced(expression)
    literal = value if isinstance(value, Literal) else constant_of(value)
    return Literal(None, type_of(expression)) if literal is None else literal


def _moved(value: Literal, days: int) -> Literal:
    if value.value is None or not days:
        return value
    kind, moved = str(value.type), cast("int", value.value)
    most = 2**31 - 1 if kind == "date" else 2**63 - 1
    return Literal(min(max(moved + days * _DAYS[kind], -most), most), value.type)


def _test(op: str, column: Column, value: Literal) -> Predicate:
    """Compare the partition value; a value that could not be computed derives nothing."""
    if value.value is None:
        return _TRUE
    try:
        bound = compare_literal(op, column, value)
    except PredicateError:
        return _TRUE
    return _on_partition(bound)


def _on_partition(node: Any) -> Any:
    if isinstance(node, Column):
        return _stat(node)
    return node.rebuild(tuple(map(_on_partition, node.parts())))


def _stat(column: Column) -> Stat:
    return Stat("partition", column.path, type_of(column))
