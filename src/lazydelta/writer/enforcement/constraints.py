"""Constraints of a table: NOT NULL, CHECK, invariants, generated columns, char and varchar.

A row violates a constraint that is not true for it: NULL and a failed evaluation are violations
like FALSE. All violated constraints of a batch are reported, each with the number of rows and the
values of the first. Pure; plans pickle, because Spark executors check the rows that they write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow.compute as pc

from lazydelta._arrow import to_numpy
from lazydelta.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    DeltaError,
    PredicateError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from lazydelta.expressions import BoundExpression, bind_condition, bind_equality
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.writer import tuning
from lazydelta.writer.enforcement.nullability import is_fully_nullable, null_violations
from lazydelta.writer.properties.property_validation import CONSTRAINT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import pyarrow as pa

    from lazydelta.schema import StructField, StructType

__all__ = [
    "GENERATION_EXPRESSION",
    "Constraint",
    "Constraints",
    "declared_length",
    "expression_error",
    "format_values",
    "table_constraints",
]

GENERATION_EXPRESSION = "delta.generationExpression"
_INVARIANTS = "delta.invariants"
_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Field metadata in which Spark stores the declared char or varchar type of a string column."""
_LENGTH_LIMIT = re.compile(r"(char|varchar)\((\d{1,9})\)")
_FALSE = build_scalar(False, PrimitiveType("boolean"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A condition that must be true of every row."""

    title: str
    """For errors: the kind, the name of the constraint or column, and the SQL."""
    test: BoundExpression

    def violation(self, batch: pa.RecordBatch) -> str | None:
        """Return a message if rows of a batch violate the constraint, else None."""
        result = self.test(batch)
        holds = pc.coalesce(result.values, _FALSE)
        if holds.true_count == batch.num_rows:
            return None
        rows = to_numpy(pc.indices_nonzero(pc.invert(holds)))
        first = int(rows[0])
        is_failure = result.failed is not None and result.failed[first].as_py()
        why = "cannot be computed for" if is_failure else "violated by"
        values = format_values(batch, first, self.test.columns)
        return f"{self.title}: {why} {_count(rows, batch)}, the first has {values}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """All constraints of a table, with NOT NULL from its schema."""

    table: str
    schema: StructType
    constraints: tuple[Constraint, ...] = ()

    def check(self, batch: pa.RecordBatch) -> None:
        """Validate a batch in the table's schema.

        Raises:
            ConstraintViolationError: Rows violate constraints; all of those are named.
        """
        violations = tuple(self.violations(batch))
        if violations:
            raise ConstraintViolationError(self.table, violations)

    def violations(self, batch: pa.RecordBatch) -> Iterator[str]:
        """Yield a message for each constraint that rows of the batch violate."""
        if batch.num_rows == 0:
            return
        if not is_fully_nullable(self.schema):
            for nulls in null_violations(batch, self.schema):
                columns = [(name,) for name in self.schema.names]
                values = format_values(batch, int(nulls.rows[0]), columns)
                yield (
                    f"column {nulls.path!r} is NOT NULL: null in {_count(nulls.rows, batch)}, "
                    f"the first has {values}"
                )
        for constraint in self.constraints:
            message = constraint.violation(batch)
            if message is not None:
                yield message


def table_constraints(
    table: str,
    schema: StructType,
    configuration: Mapping[str, str],
    *,
    input_columns: frozenset[str],
) -> Constraints:
    """Return the constraints of a table.

    Args:
        table: The table's URL, for errors.
        schema: The schema of the rows to check.
        configuration: The table's properties, which hold its CHECK constraints.
        input_columns: Columns that the input has. Generated columns among them are compared
            with their expression; the others are computed, and need no check.

    Raises:
        UnsupportedFeatureError: An expression that lazydelta cannot evaluate.
        SchemaMismatchError: An expression names a column that the schema does not have.
    """
    constraints = [
        _check_constraint(key.removeprefix(CONSTRAINT_PREFIX), sql, schema, table=table)
        for key, sql in sorted(configuration.items())
        if key.startswith(CONSTRAINT_PREFIX)
    ]
    for part in schema:
        constraints += _length_constraints(part, schema, table)
        if part.name in input_columns and GENERATION_EXPRESSION in part.metadata:
            constraints.append(_generation_constraint(part, schema, table))
    for path, part in schema.all_fields():
        if len(path) > 1 and _DECLARED_TYPE in part.metadata:
            raise _nested_limit(".".join(path), str(part.metadata[_DECLARED_TYPE]), table)
        constraints += _invariants(".".join(path), part, schema, table)
    return Constraints(table=table, schema=schema, constraints=tuple(constraints))


def _check_constraint(name: str, sql: str, schema: StructType, *, table: str) -> Constraint:

    what = f"CHECK constraint {name!r} ({sql})"
    try:
        return Constraint(title=what, test=bind_condition(sql, schema))
    except DeltaError as error:
        raise expression_error("checkConstraints", what, error, table) from None


def expression_error(feature: str, what: str, error: DeltaError, table: str) -> DeltaError:
    """Return the error for an expression of the table that cannot be evaluated on write."""
    if isinstance(error, ColumnNotFoundError):
        missing = f"{what} needs column {error.column!r}, which the new schema does not have"
        return SchemaMismatchError(table, (missing,), "Add the column, or drop the constraint.")
    reason = error.reason if isinstance(error, PredicateError) else str(error)
    return UnsupportedFeatureError(table, (feature,), "write", f"{what}: {reason.rstrip('.')}")


def format_values(batch: pa.RecordBatch, row: int, paths: Any) -> str:
    """Format the values of a row at some paths as `a=1, b.c='x'`, truncated for errors."""
    longest, values = tuning.LONGEST_VALUE, []
    for path in sorted(paths):
        value: Any = batch.column(path[0])[row].as_py()
        for name in path[1:]:
            value = value and value[name]
        full = repr(value)
        values.append(f"{'.'.join(path)}={full[:longest]}{'...' * (len(full) > longest)}")
    return ", ".join(values) or "no columns"


def declared_length(part: StructField, table: str) -> tuple[str, int] | None:
    """Return `char` or `varchar` and its length for a column declared so, else None.

    Raises:
        UnsupportedFeatureError: A nested field is declared so.
    """
    declared = str(part.metadata.get(_DECLARED_TYPE, part.type)).lower()
    whole = _LENGTH_LIMIT.fullmatch(declared)
    if whole is not None:
        return whole[1], int(whole[2])
    if _LENGTH_LIMIT.search(declared):
        raise _nested_limit(part.name, declared, table)
    return None


def _nested_limit(path: str, declared: str, table: str) -> UnsupportedFeatureError:
    feature = "char and varchar in nested columns"
    return UnsupportedFeatureError(table, (feature,), "write", f"column {path!r} is {declared}")


def _length_constraints(part: StructField, schema: StructType, table: str) -> Iterator[Constraint]:
    limit = declared_length(part, table)
    if limit is not None:
        name = f"`{part.name.replace('`', '``')}`"
        sql = f"{name} IS NULL OR length({name}) <= {limit[1]}"
        test = bind_condition(sql, schema)
        yield Constraint(title=f"column {part.name!r} is {limit[0]}({limit[1]})", test=test)


def _generation_constraint(part: StructField, schema: StructType, table: str) -> Constraint:
    sql = str(part.metadata[GENERATION_EXPRESSION])
    what = f"generated column {part.name!r} ({sql})"
    try:
        return Constraint(title=what, test=bind_equality(part.name, sql, schema))
    except DeltaError as error:
        raise expression_error("generatedColumns", what, error, table) from None


def _invariants(
    path: str, part: StructField, schema: StructType, table: str
) -> Iterator[Constraint]:
    raw = part.metadata.get(_INVARIANTS)
    if raw is None:
        return
    what = f"invariant of column {path!r}"
    try:
        sql = orjson.loads(raw)["expression"]["expression"]
    except (orjson.JSONDecodeError, LookupError, TypeError):
        reason = SchemaError(f"{raw!r:.200} is not the JSON of an invariant")
        raise expression_error("invariants", what, reason, table) from None
    try:
        yield Constraint(title=f"{what} ({sql})", test=bind_condition(sql, schema))
    except DeltaError as error:
        raise expression_error("invariants", f"{what} ({sql})", error, table) from None


def _count(rows: np.ndarray, batch: pa.RecordBatch) -> str:
    return f"{len(rows)} of {batch.num_rows} rows"
