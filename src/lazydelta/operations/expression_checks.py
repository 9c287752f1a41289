"""Validate the expressions of declared columns: generated columns, defaults, invariants. Pure.

An expression that lazydelta cannot evaluate on write is refused when the column is declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError
from lazydelta.operations.column_dependencies import named_columns
from lazydelta.schema import format_path
from lazydelta.writer.columns import identity_columns
from lazydelta.writer.enforcement import (
    GENERATION_EXPRESSION,
    plan_computed_columns,
    table_constraints,
)

if TYPE_CHECKING:
    from lazydelta.schema import StructType

__all__ = ["check_column_expressions", "check_computed_columns"]

_DEFAULT = "CURRENT_DEFAULT"


def check_column_expressions(schema: StructType, table: str) -> None:
    """Refuse columns whose values or constraints lazydelta cannot evaluate.

    Raises:
        UnsupportedFeatureError: An expression that lazydelta cannot evaluate.
        SchemaError: An expression on a nested or identity column, one that depends on a generated
            column, or an invalid identity column.
    """
    for column in identity_columns(schema, table):
        if {GENERATION_EXPRESSION, _DEFAULT} & schema.find((column.name,))[0].metadata.keys():
            name = format_path((column.name,))
            reason = f"{name} is an identity column, and cannot have an expression"
            raise SchemaError(reason, table)
    for path, item in schema.all_fields():
        if len(path) > 1 and {GENERATION_EXPRESSION, _DEFAULT} & item.metadata.keys():
            raise SchemaError(
                f"{format_path(path)}: only top-level columns can have expressions", table
            )
        if {GENERATION_EXPRESSION, _DEFAULT} <= item.metadata.keys():
            raise SchemaError(f"{format_path(path)} is generated, and cannot have a default", table)
    _refuse_chains(schema, table)
    check_computed_columns(schema, table)
    table_constraints(table, schema, {}, input_columns=frozenset(schema.names))


def check_computed_columns(schema: StructType, table: str) -> None:
    """Refuse generated columns and defaults that lazydelta cannot evaluate.

    Raises:
        UnsupportedFeatureError: With the column and the reason.
    """
    plan_computed_columns(schema, schema, table=table)


def _refuse_chains(schema: StructType, table: str) -> None:
    """Refuse a generated column that depends on another: engines differ in evaluation order."""
    expressions = {f.name: str(f.metadata.get(GENERATION_EXPRESSION, "")) for f in schema}
    generated = {name.lower(): name for name, sql in expressions.items() if sql}
    for name, sql in expressions.items():
        for used in named_columns(sql):
            if used[0] in generated:
                other = generated[used[0]]
                reason = f"generated column {name!r} depends on {other!r}"
                raise SchemaError(f"{reason}, which is a generated column too", table)
