"""Find the log segment of a version, and another one if a file of it is corrupt.

The only place that handles corrupt checkpoints and compacted commits: loading a snapshot, scanning
it and reading its other actions all call it with their error.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from lazydelta.errors import (
    DeltaError,
    LogCorruptError,
    LogGapError,
    TableNotFoundError,
    VersionNotFoundError,
)
from lazydelta.log import LogSegment, choose_segment, list_log
from lazydelta.log.checkpoints import read_hint
from lazydelta.snapshot import tuning
from lazydelta.snapshot.not_found import table_not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.config import Config
    from lazydelta.log.checkpoints import CheckpointHint
    from lazydelta.store import Store

__all__ = ["IncompleteLogError", "find_segment", "undamaged_segment"]

logger = logging.getLogger(__name__)


class IncompleteLogError(LogCorruptError):
    """The log is readable, but lacks a required action."""


def find_segment(
    store: Store,
    config: Config,
    *,
    version: int | None = None,
    excluded: frozenset[str] = frozenset(),
) -> tuple[LogSegment, CheckpointHint | None]:
    """List the log and select the segment of a version, by default the latest."""

    def select(from_version: int, to_version: int | None = version) -> LogSegment:
        files = list_log(store, from_version=from_version, to_version=to_version)
        try:
            return choose_segment(
                store.root,
                files,
                version=version,
                use_compaction=config.use_log_compaction,
                excluded=excluded,
            )
        except TableNotFoundError:
            raise table_not_found(store.root) from None

    hint = read_hint(store)
    if hint is not None and not excluded and (version is None or hint.version <= version):
        try:
            segment = select(hint.version)
            if segment.checkpoint is not None:
                return segment, hint
        except (LogGapError, TableNotFoundError, VersionNotFoundError):
            pass  # the hint is stale or invalid: a full listing decides
    try:
        return _retry_gaps(lambda: select(0), config), hint
    except (LogGapError, TableNotFoundError, VersionNotFoundError):
        if version is None:
            raise
        # Later versions tell why this one is missing: cleaned up, or not committed yet.
        return select(0, to_version=None), hint


def _retry_gaps(select: Callable[[], LogSegment], config: Config) -> LogSegment:
    """Select a segment; lists again after a gap, with backoff."""
    for attempt in range(tuning.MAX_LISTINGS):
        try:
            return select()
        except LogGapError:
            if attempt == tuning.MAX_LISTINGS - 1:
                raise
            time.sleep(min(config.retry_base_seconds * 2**attempt, config.retry_cap_seconds))
    raise AssertionError  # pragma: no cover


def undamaged_segment(
    store: Store, config: Config, segment: LogSegment, error: LogCorruptError
) -> LogSegment:
    """Return another segment of the same version, without the corrupt file.

    Args:
        store: The table's store.
        config: Settings of the engine.
        segment: The segment with the corrupt file.
        error: The error of reading it.

    Raises:
        LogCorruptError: `error` itself, if a commit is corrupt or the log has no other segment of
            the version.
    """
    if (uncompacted := segment.without(error.file)) is not None:
        logger.warning("ignoring a damaged compaction: %s", error)
        return uncompacted
    checkpoint = segment.checkpoint
    # A truncated Parquet file is unreadable, so a readable one that lacks an action was written
    # that way, and every engine refuses it. JSON may have been truncated.
    is_invalid = isinstance(error, IncompleteLogError) and error.file.endswith(".parquet")
    if checkpoint is None or is_invalid or not checkpoint.may_include(error.file):
        raise error
    excluded = segment.excluded | {checkpoint.name}
    try:
        other, _ = find_segment(store, config, version=segment.version, excluded=excluded)
    except DeltaError:
        raise error from None
    logger.warning("ignoring a damaged checkpoint: %s", error)
    return other
