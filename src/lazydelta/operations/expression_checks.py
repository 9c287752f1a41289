"""Expressions in declared columns, generated ones and defaults: can they be computed? Pure.

What lazydelta could not compute when rows are written is refused when the column is declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError
from lazydelta.operations.column_dependencies import named_columns
from lazydelta.writer import (
    GENERATION,
    all_fields,
    identity_columns,
    plan_computed_columns,
    shown_path,
    table_rules,
)

if TYPE_CHECKING:
    from lazydelta.schema import StructType

__all__ = ["check_expressions", "check_fillers"]

_DEFAULT = "CURRENT_DEFAULT"


def check_expressions(schema: StructType, table: str) -> None:
    """Refuse columns whose values, or whose rules, lazydelta could not compute.

    Raises:
        UnsupportedFeatureError: An expression that is not understood.
        SchemaError: An expression where none can be, or one that needs a generated column; an
            identity column that cannot be numbered.
    """
    for column in identity_columns(schema, table):
        if {GENERATION, _DEFAULT} & schema.find((column.name,))[0].metadata.keys():
            reason = f"{shown_path((column.name,))} is numbered, and cannot have an expression"
            raise SchemaError(reason, table)
    for path, item in all_fields(schema):
        if len(path) > 1 and {GENERATION, _DEFAULT} & item.metadata.keys():
            raise SchemaError(f"{shown_path(path)}: only whole columns have expressions", table)
        if {GENERATION, _DEFAULT} <= item.metadata.keys():
            raise SchemaError(f"{shown_path(path)} is generated, and cannot have a default", table)
    _refuse_chains(schema, table)
    check_fillers(schema, table)
    table_rules(table, schema, {}, given=frozenset(schema.names))


def check_fillers(schema: StructType, table: str) -> None:
    """Refuse generated columns and defaults that are not understood.

    Raises:
        UnsupportedFeatureError: With the column and the reason.
    """
    plan_computed_columns(schema, schema, table=table)


def _refuse_chains(schema: StructType, table: str) -> None:
    """Refuse a generated column that is computed from another: engines disagree on the order."""
    texts = {item.name: str(item.metadata.get(GENERATION, "")) for item in schema}
    generated = {name.lower(): name for name, text in texts.items() if text}
    for name, text in texts.items():
        for used in named_columns(text):
            if used[0] in generated:
                other = generated[used[0]]
                reason = f"generated column {name!r} is computed from {other!r}"
                raise SchemaError(f"{reason}, which is generated as well", table)
