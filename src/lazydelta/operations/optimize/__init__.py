"""OPTIMIZE: rewrite files without changing rows: compaction, purge and clustering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.optimize.bins import Bin, fitting, partition_codes
    from lazydelta.operations.optimize.candidates import FILES
    from lazydelta.operations.optimize.clustering import Clustering
    from lazydelta.operations.optimize.compact import optimize_table, purge_table
    from lazydelta.operations.optimize.curve_sort import CurveSort
    from lazydelta.operations.optimize.file_selection import Selection
    from lazydelta.operations.optimize.request import OptimizeRequest, OptimizeResult
    from lazydelta.operations.optimize.rewriting import Rewriter, recorded_rows
    from lazydelta.operations.optimize.workers import LocalWorkers, SelectedBins

__all__ = [
    "FILES",
    "Bin",
    "Clustering",
    "CurveSort",
    "LocalWorkers",
    "OptimizeRequest",
    "OptimizeResult",
    "Rewriter",
    "SelectedBins",
    "Selection",
    "fitting",
    "optimize_table",
    "partition_codes",
    "purge_table",
    "recorded_rows",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "bins": ("Bin", "fitting", "partition_codes"),
        "candidates": ("FILES",),
        "clustering": ("Clustering",),
        "compact": ("optimize_table", "purge_table"),
        "curve_sort": ("CurveSort",),
        "file_selection": ("Selection",),
        "request": ("OptimizeRequest", "OptimizeResult"),
        "rewriting": ("Rewriter", "recorded_rows"),
        "workers": ("LocalWorkers", "SelectedBins"),
    },
)
