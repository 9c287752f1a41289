"""`DeltaTable` and its builders: the API of `delta.tables` on stock PySpark."""

from __future__ import annotations

from lazydelta.spark.delta_api.column_definitions import DeltaColumnBuilder, IdentityGenerator
from lazydelta.spark.delta_api.delta_merge import DeltaMergeBuilder
from lazydelta.spark.delta_api.delta_optimize import DeltaOptimizeBuilder
from lazydelta.spark.delta_api.delta_table import DeltaTable
from lazydelta.spark.delta_api.table_definition import TableDefinition

__all__ = [
    "DeltaColumnBuilder",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "IdentityGenerator",
    "TableDefinition",
]
