"""OPTIMIZE: rewrite files without changing rows: compaction, purge and clustering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.optimize.compact import optimize_table, purge_table
    from lazydelta.operations.optimize.request import OptimizeRequest, OptimizeResult

__all__ = ["OptimizeRequest", "OptimizeResult", "optimize_table", "purge_table"]

__getattr__ = lazy_exports(
    __name__,
    {
        "compact": ("optimize_table", "purge_table"),
        "request": ("OptimizeRequest", "OptimizeResult"),
    },
)
