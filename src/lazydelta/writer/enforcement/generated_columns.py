"""Columns that the table computes because the input lacks them: generated columns and defaults.

A default applies only if the input has no such column; an explicit null stays null. An expression
that lazydelta cannot evaluate refuses the write. Pure; plans pickle.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.errors import ConstraintViolationError, DeltaError
from lazydelta.expressions import BoundExpression, bind_expression, bind_literal
from lazydelta.schema import PrimitiveType, StructType
from lazydelta.writer.enforcement.constraints import (
    GENERATION_EXPRESSION,
    expression_error,
    format_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lazydelta.schema import StructField

__all__ = ["ComputedColumn", "plan_computed_columns"]

_DEFAULT = "CURRENT_DEFAULT"
_NOW = ("current_timestamp", "current_timestamp()", "now()")
_TODAY = ("current_date", "current_date()", "curdate()")
_DAY_MICROS = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """A missing column and the expression that computes it."""

    column: str
    title: str
    value: BoundExpression

    def fill(self, batch: pa.RecordBatch, table: str) -> pa.RecordBatch:
        """Return a batch of the table's schema with the column computed.

        Raises:
            ConstraintViolationError: The expression fails for some row.
        """
        result = self.value(batch)
        if result.failed is not None:
            row = result.failed.index(True).as_py()
            shown = format_values(batch, row, self.value.columns)
            count = f"{result.failed.true_count} of {batch.num_rows} rows"
            line = f"{self.title}: cannot be computed for {count}, the first has {shown}"
            raise ConstraintViolationError(table, (line,))
        index = batch.schema.get_field_index(self.column)
        return batch.set_column(index, batch.schema.field(index), result.values)


def plan_computed_columns(
    missing: Iterable[StructField], schema: StructType, *, table: str
) -> tuple[ComputedColumn, ...]:
    """Return the computed columns, in order of evaluation.

    A missing column with neither a default nor an expression is omitted.

    Raises:
        UnsupportedFeatureError: An expression that lazydelta cannot evaluate.
    """
    defaults, generated = [], []
    for part in missing:
        if GENERATION_EXPRESSION in part.metadata:
            generated.append(_generated(part, schema, table))
        elif _DEFAULT in part.metadata:
            defaults.append(_default(part, table))
    return (*defaults, *generated)


def _generated(part: StructField, schema: StructType, table: str) -> ComputedColumn:
    sql = str(part.metadata[GENERATION_EXPRESSION])
    title = f"generated column {part.name!r} ({sql})"
    try:
        value = bind_expression(sql, schema, to_type=part.type)
    except DeltaError as error:
        raise expression_error("generatedColumns", title, error, table) from None
    return ComputedColumn(column=part.name, title=title, value=value)


def _default(part: StructField, table: str) -> ComputedColumn:
    sql = str(part.metadata[_DEFAULT])
    title = f"default of column {part.name!r} ({sql})"
    try:
        value = _now(sql, part) or bind_expression(sql, StructType(()), to_type=part.type)
    except DeltaError as error:
        raise expression_error("allowColumnDefaults", title, error, table) from None
    return ComputedColumn(column=part.name, title=title, value=value)


def _now(sql: str, part: StructField) -> BoundExpression | None:
    """Return a default of the current time: one value for all rows of a write, as in Spark."""
    micros = time.time_ns() // 1_000
    function = sql.strip().lower()
    if function in _NOW:
        return bind_literal(sql, micros, PrimitiveType("timestamp"), to_type=part.type)
    if function in _TODAY:
        days = micros // _DAY_MICROS
        return bind_literal(sql, days, PrimitiveType("date"), to_type=part.type)
    return None
