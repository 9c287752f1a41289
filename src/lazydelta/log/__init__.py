"""Read `_delta_log`: listing, log segments, commits and checksums.

Returns the actions as Arrow batches; `replay` decides which files are live.
"""

from __future__ import annotations

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
from lazydelta.log.listing import list_log
from lazydelta.log.log_store import open_log_store
from lazydelta.log.segment import CheckpointFiles, LogSegment, choose_segment, earliest_version

__all__ = [
    "LOG_DIRECTORY",
    "CheckpointFiles",
    "Checksum",
    "CommitReader",
    "LogFile",
    "LogFileKind",
    "LogSegment",
    "checkpoint_path",
    "checksum_path",
    "choose_segment",
    "compacted_path",
    "earliest_version",
    "list_log",
    "open_log_store",
    "read_checksum",
    "sidecar_path",
]
