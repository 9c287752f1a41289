"""Schema enforcement on write: casts, computed columns, NOT NULL and CHECK constraints."""

from __future__ import annotations

from lazydelta.writer.enforcement.constraints import (
    GENERATION_EXPRESSION,
    Constraint,
    table_constraints,
)
from lazydelta.writer.enforcement.enforcement import Enforcement, SchemaMode, plan_enforcement
from lazydelta.writer.enforcement.generated_columns import plan_computed_columns
from lazydelta.writer.enforcement.schema_enforcement import cast_values

__all__ = [
    "GENERATION_EXPRESSION",
    "Constraint",
    "Enforcement",
    "SchemaMode",
    "cast_values",
    "plan_computed_columns",
    "plan_enforcement",
    "table_constraints",
]
