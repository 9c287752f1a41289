"""Planning: from a snapshot and a predicate to a stream of live files."""

from __future__ import annotations

from lazydelta.scan.plan.add_columns import conformed, leaves_of, nulls
from lazydelta.scan.plan.explain import Explanation
from lazydelta.scan.plan.log_splits import (
    COMMIT_VERSION,
    CheckpointPart,
    PartReader,
    TailPart,
    live_adds,
    split_checkpoint,
    split_tail,
    typed_columns,
)
from lazydelta.scan.plan.partition_arrays import partition_columns, partition_strings
from lazydelta.scan.plan.scan_files import ScanFile

__all__ = [
    "COMMIT_VERSION",
    "CheckpointPart",
    "Explanation",
    "PartReader",
    "ScanFile",
    "TailPart",
    "conformed",
    "leaves_of",
    "live_adds",
    "nulls",
    "partition_columns",
    "partition_strings",
    "split_checkpoint",
    "split_tail",
    "typed_columns",
]
