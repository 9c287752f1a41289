"""Scanning a snapshot: plan, run, and the files that come out."""

from __future__ import annotations

from lazydelta.scan.adds import conformed, from_commit, leaves_of, nulls, projected
from lazydelta.scan.bundle import Bundle, check_bundle, pin
from lazydelta.scan.explain import Explanation
from lazydelta.scan.feed import Feed, RowSource
from lazydelta.scan.files import DeletionVector, ScanFile
from lazydelta.scan.partitions import partition_columns, partition_texts
from lazydelta.scan.parts import (
    COMMIT_VERSION,
    CheckpointPart,
    PartReader,
    TailPart,
    live_adds,
    split_checkpoint,
    split_tail,
    typed_columns,
)
from lazydelta.scan.pipeline import read_ahead, threads_for
from lazydelta.scan.places import Places
from lazydelta.scan.present import Presentation, columns_to_read
from lazydelta.scan.read import ReadOptions, read_files
from lazydelta.scan.request import Scan, Where
from lazydelta.scan.rows import FileFit, RowShape
from lazydelta.scan.stream import Stream
from lazydelta.scan.transform import MisfitError
from lazydelta.scan.verify import ChecksumReport, TableCheck, check_table, verify_checksum

__all__ = [
    "COMMIT_VERSION",
    "Bundle",
    "CheckpointPart",
    "ChecksumReport",
    "DeletionVector",
    "Explanation",
    "Feed",
    "FileFit",
    "MisfitError",
    "PartReader",
    "Places",
    "Presentation",
    "ReadOptions",
    "RowShape",
    "RowSource",
    "Scan",
    "ScanFile",
    "Stream",
    "TableCheck",
    "TailPart",
    "Where",
    "check_bundle",
    "check_table",
    "columns_to_read",
    "conformed",
    "from_commit",
    "leaves_of",
    "live_adds",
    "nulls",
    "partition_columns",
    "partition_texts",
    "pin",
    "projected",
    "read_ahead",
    "read_files",
    "split_checkpoint",
    "split_tail",
    "threads_for",
    "typed_columns",
    "verify_checksum",
]
