"""The columns of a table: valid names, identity columns, schema evolution by a write."""

from __future__ import annotations

from lazydelta.writer.columns.column_names import check_names, check_partition_columns
from lazydelta.writer.columns.identity import (
    furthest_values,
    high_water_marks,
    identity_columns,
    is_identity,
    with_high_water_marks,
    without_high_water_marks,
)
from lazydelta.writer.columns.schema_evolution import (
    TableDefinition,
    check_void_within,
    with_merged_schema,
)

__all__ = [
    "TableDefinition",
    "check_names",
    "check_partition_columns",
    "check_void_within",
    "furthest_values",
    "high_water_marks",
    "identity_columns",
    "is_identity",
    "with_high_water_marks",
    "with_merged_schema",
    "without_high_water_marks",
]
