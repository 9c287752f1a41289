"""Whether the snapshot of a handle is still the newest version: one listing decides.

A put of the next version alone does not: after log cleanup it may succeed although newer versions
exist, and no reader would ever list it. The listing also shows whether the log is still that of the
snapshot, or of another table that was created under the same URL.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lazydelta.errors import LogGapError
from lazydelta.log import LogFileKind, choose_segment, list_log
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import tuning

if TYPE_CHECKING:
    from lazydelta.log import LogFile, LogSegment
    from lazydelta.snapshot import SnapshotState

__all__ = ["newest_snapshot"]


def newest_snapshot(known: SnapshotState) -> SnapshotState:
    """Return the newest snapshot of a table: `known` if a listing confirms it, else a new one.

    Raises:
        TableNotFoundError: The table was deleted.
    """
    if len(known.segment.commits) <= tuning.REUSED_TAIL:
        listed_ms = time.time_ns() // 10**6
        segment = _confirmed(known)
        if segment is not None:
            return replace(known, segment=segment, listed_ms=listed_ms)
    return load_snapshot(known.store, known.config)


def _confirmed(known: SnapshotState) -> LogSegment | None:
    """Return the segment with its commits as listed; None if it is not that of the newest version.

    Commits of this process have no modification time before they are listed. Log files never
    change, so if the newest file that was listed before is the same, so are the commits after it.
    """
    segment = known.segment
    anchor = _newest_listed(segment)
    if anchor is None:
        return None
    files = list_log(known.store, from_version=anchor.version)
    commits = {file.version: file for file in files if file.kind is LogFileKind.COMMIT}
    is_newest = all(file.last_version <= segment.version for file in files)
    later = [file for file in segment.commits if file.version > anchor.version]
    if not is_newest or anchor not in files or not all(f.version in commits for f in later):
        return None
    try:
        checkpointed = choose_segment(
            segment.table,
            files,
            version=segment.version,
            use_compaction=known.config.use_log_compaction,
            excluded=segment.excluded,
        )
    except LogGapError:  # no checkpoint among the listed files
        return replace(
            segment,
            commits=tuple(commits.get(file.version, file) for file in segment.commits),
            tail=tuple(_listed(file, commits) for file in segment.tail),
        )
    return checkpointed


def _newest_listed(segment: LogSegment) -> LogFile | None:
    """Return the newest file of a segment whose modification time is known."""
    for file in reversed(segment.commits):
        if file.modified_ms:
            return file
    return None if segment.checkpoint is None else segment.checkpoint.files[0]


def _listed(file: LogFile, commits: dict[int, LogFile]) -> LogFile:
    return commits.get(file.version, file) if file.kind is LogFileKind.COMMIT else file
