"""Column mapping: logical and physical column names, and column ids."""

from __future__ import annotations

from lazydelta.schema.mapping.column_ids import (
    assign_column_ids,
    without_column_ids,
    without_metadata,
)
from lazydelta.schema.mapping.physical_names import (
    check_mapping,
    file_only_column,
    physical_name,
    physical_path,
    to_physical,
)

__all__ = [
    "assign_column_ids",
    "check_mapping",
    "file_only_column",
    "physical_name",
    "physical_path",
    "to_physical",
    "without_column_ids",
    "without_metadata",
]
