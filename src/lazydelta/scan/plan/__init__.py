"""Scan planning: a snapshot and a predicate become a stream of live files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.scan.plan.add_columns import add_leaf_columns, conformed, nulls
    from lazydelta.scan.plan.explain import Explanation
    from lazydelta.scan.plan.log_splits import (
        COMMIT_VERSION,
        CheckpointSplit,
        CommitSplit,
        SplitReader,
        live_adds,
        parsed_stats_fields,
        split_checkpoint,
        split_tail,
    )
    from lazydelta.scan.plan.partition_arrays import partition_columns, partition_strings
    from lazydelta.scan.plan.scan_files import ScanFile

__all__ = [
    "COMMIT_VERSION",
    "CheckpointSplit",
    "CommitSplit",
    "Explanation",
    "ScanFile",
    "SplitReader",
    "add_leaf_columns",
    "conformed",
    "live_adds",
    "nulls",
    "parsed_stats_fields",
    "partition_columns",
    "partition_strings",
    "split_checkpoint",
    "split_tail",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "add_columns": ("add_leaf_columns", "conformed", "nulls"),
        "explain": ("Explanation",),
        "log_splits": (
            "COMMIT_VERSION",
            "CheckpointSplit",
            "CommitSplit",
            "SplitReader",
            "live_adds",
            "parsed_stats_fields",
            "split_checkpoint",
            "split_tail",
        ),
        "partition_arrays": ("partition_columns", "partition_strings"),
        "scan_files": ("ScanFile",),
    },
)
