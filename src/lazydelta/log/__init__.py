"""`_delta_log` on disk: names, listings, segments, commits and checkpoints, as Arrow batches.

Says what is written; what it means is `replay`'s business.
"""

from __future__ import annotations

from lazydelta.log.checkpoints import Checkpoint, Leaf, LeafReader, open_checkpoint
from lazydelta.log.checksum import Checksum, read_checksum
from lazydelta.log.commits import CommitReader
from lazydelta.log.file_names import (
    LOG_DIRECTORY,
    LogFile,
    LogFileKind,
    checkpoint_path,
    checksum_path,
    compacted_path,
    sidecar_path,
)
from lazydelta.log.last_checkpoint import CheckpointHint, read_hint, write_hint
from lazydelta.log.listing import list_log
from lazydelta.log.segment import CheckpointFiles, LogSegment, choose_segment, earliest_version

__all__ = [
    "LOG_DIRECTORY",
    "Checkpoint",
    "CheckpointFiles",
    "CheckpointHint",
    "Checksum",
    "CommitReader",
    "Leaf",
    "LeafReader",
    "LogFile",
    "LogFileKind",
    "LogSegment",
    "checkpoint_path",
    "checksum_path",
    "choose_segment",
    "compacted_path",
    "earliest_version",
    "list_log",
    "open_checkpoint",
    "read_checksum",
    "read_hint",
    "sidecar_path",
    "write_hint",
]
