"""Scan planning: a snapshot and a predicate become a stream of live files."""

from __future__ import annotations

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
