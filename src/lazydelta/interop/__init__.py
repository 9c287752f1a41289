"""Adapters to other engines. Each imports its package only when it is called.

`Scan` itself implements the Arrow C stream interface, so many consumers need no adapter. The
adapters add pushdown: the engine's filter and columns reach our plan.
"""

from __future__ import annotations

from lazydelta.interop.datafusion import register as register_datafusion
from lazydelta.interop.dataset import LazyDataset, to_pyarrow_dataset
from lazydelta.interop.duckdb import relation as duckdb_relation
from lazydelta.interop.polars import scan_polars, to_polars
from lazydelta.interop.query import QueryBuilder
from lazydelta.interop.statement_runner import sql

__all__ = [
    "LazyDataset",
    "QueryBuilder",
    "duckdb_relation",
    "register_datafusion",
    "scan_polars",
    "sql",
    "to_polars",
    "to_pyarrow_dataset",
]
