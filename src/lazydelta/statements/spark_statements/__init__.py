"""SQL of Spark only: statements that define or maintain a table, and the tables of queries."""

from __future__ import annotations

from lazydelta.statements.spark_statements.maintenance_parser import parse_maintenance
from lazydelta.statements.spark_statements.maintenance_statement import (
    Alter,
    Convert,
    CreateTable,
    Describe,
    Generate,
    MaintenanceStatement,
    Optimize,
    Restore,
    SetProperties,
    Vacuum,
)
from lazydelta.statements.spark_statements.table_places import (
    QueryTable,
    common_tables,
    query_tables,
)

__all__ = [
    "Alter",
    "Convert",
    "CreateTable",
    "Describe",
    "Generate",
    "MaintenanceStatement",
    "Optimize",
    "QueryTable",
    "Restore",
    "SetProperties",
    "Vacuum",
    "common_tables",
    "parse_maintenance",
    "query_tables",
]
