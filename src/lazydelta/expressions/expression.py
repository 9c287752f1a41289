"""SQL expressions of table metadata, bound to a schema and evaluated on its rows.

CHECK constraints, invariants, generated columns and defaults are Spark SQL. Binding refuses what
is not supported by name; evaluation then gives a value, or a failure, for each row of a batch.
A bound expression pickles and does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lazydelta.errors import PredicateError
from lazydelta.expressions.binding import bind_value
from lazydelta.expressions.coercion import BOOLEAN, assignable, type_of
from lazydelta.expressions.evaluation import evaluate_checked
from lazydelta.expressions.implicit_casts import cast_to
from lazydelta.expressions.nodes.predicates import Compare
from lazydelta.expressions.nodes.value_nodes import Column, Literal, Stat
from lazydelta.expressions.parser import parse_expression

if TYPE_CHECKING:
    import pyarrow as pa

    from lazydelta.expressions.evaluation_result import Result
    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType, StructType

__all__ = [
    "BoundExpression",
    "bind_condition",
    "bind_equality",
    "bind_expression",
    "bind_literal",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundExpression:
    """An expression over the rows of one schema."""

    sql: str
    """As the table's metadata has it."""
    node: Value

    @property
    def columns(self) -> frozenset[tuple[str, ...]]:
        """The paths of the columns that it reads."""
        return frozenset(node.path for node in self.node.walk() if isinstance(node, Column))

    def __call__(self, batch: pa.RecordBatch) -> Result:
        """Evaluate it over a batch in the schema that it is bound to."""

        def column(ref: Column | Stat) -> pa.Array:
            values = batch.column(ref.path[0])
            for name in ref.path[1:]:  # a field of a null struct is null
                values = pc.struct_field(values, [values.type.get_field_index(name)])
            return values

        return evaluate_checked(self.node, column, batch.num_rows)


def bind_expression(
    sql: str,
    schema: StructType,
    *,
    to_type: DataType | None = None,
    strict: bool = True,
    now: int | None = None,
) -> BoundExpression:
    """Parse an expression and bind it to a schema.

    >>> import pyarrow as pa
    >>> from lazydelta.schema import PrimitiveType, StructField, StructType
    >>> schema = StructType((StructField("a", PrimitiveType("integer")),))
    >>> twice = bind_expression("a * 2", schema, to_type=PrimitiveType("long"))
    >>> twice(pa.RecordBatch.from_pydict({"a": pa.array([1, None], pa.int32())})).values.to_pylist()
    [2, None]

    Args:
        sql: Spark SQL.
        schema: The table's schema.
        to_type: The type of the column that stores the values; None keeps their own.
        strict: Whether it is part of the table's metadata, where what depends on the session is
            refused. An assignment of UPDATE or MERGE is not.
        now: The time of the statement, in microseconds since 1970; None is the time of this call.

    Raises:
        PredicateError: It is not supported, or its values need a CAST to that type.
        ColumnNotFoundError: It names a column that the schema does not have.
    """
    node = bind_value(parse_expression(sql), schema, strict=strict, now=now)
    if to_type is not None:
        node = _stored(node, to_type, sql, strict=strict)
    return BoundExpression(sql=sql, node=node)


def bind_condition(sql: str, schema: StructType) -> BoundExpression:
    """Parse the condition of a CHECK constraint or an invariant, and bind it to a schema.

    Raises:
        PredicateError: It is not supported, not a condition, or names no column.
        ColumnNotFoundError: It names a column that the schema does not have.
    """
    bound = bind_expression(sql, schema, to_type=BOOLEAN)
    if not bound.columns:
        reason = "it depends on no column, so it holds for all rows or for none"
        raise PredicateError(sql, f"{reason}; name a column, in `backticks` if it needs quotes")
    return bound


def bind_literal(sql: str, value: Any, kind: DataType, *, to_type: DataType) -> BoundExpression:
    """Return a literal of one type, stored as another.

    Raises:
        PredicateError: It needs a CAST to that type.
    """
    return BoundExpression(sql=sql, node=_stored(Literal(value, kind), to_type, sql, strict=True))


def bind_equality(column: str, sql: str, schema: StructType) -> BoundExpression:
    """Return whether a column has the value of an expression; NULL equals NULL.

    Raises:
        PredicateError: It is not supported, or its values are not of the column's type.
        ColumnNotFoundError: It names a column that the schema does not have.
    """
    own = bind_value(Column((column,)), schema, strict=True)
    wanted = bind_expression(sql, schema, to_type=type_of(own))
    return BoundExpression(sql=sql, node=Compare("<=>", own, wanted.node))


def _stored(node: Value, kind: DataType, sql: str, *, strict: bool) -> Value:
    fine = assignable(type_of(node), kind, strict=strict)
    found = cast_to(node, kind, strict=strict) if fine else None
    if found is None:
        raise PredicateError(sql, f"its values are {type_of(node)}, not {kind}")
    return found
