"""The log segment of a version: the preferred one, and another where a file of it is damaged.

The only place that decides what to do about a damaged checkpoint or compaction. Loading a
snapshot, scanning it and reading its other actions all come here with the error that they met.
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
from lazydelta.log import CheckpointHint, LogSegment, choose_segment, list_log, read_hint
from lazydelta.snapshot.not_found import table_not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = ["IncompleteLogError", "find_segment", "undamaged_segment"]

logger = logging.getLogger(__name__)

_GAP_TRIES = 3


class IncompleteLogError(LogCorruptError):
    """The log can be read, but lacks an action that every table has."""


def find_segment(
    store: Store,
    config: Config,
    *,
    version: int | None = None,
    excluded: frozenset[str] = frozenset(),
) -> tuple[LogSegment, CheckpointHint | None]:
    """List the log and choose the segment that rebuilds a version."""

    def choose(from_version: int, to_version: int | None = version) -> LogSegment:
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
            segment = choose(hint.version)
            if segment.checkpoint is not None:
                return segment, hint
        except (LogGapError, TableNotFoundError, VersionNotFoundError):
            pass  # the hint is stale or dangling: the whole listing decides
    try:
        return _patiently(lambda: choose(0), config), hint
    except (LogGapError, TableNotFoundError, VersionNotFoundError):
        if version is None:
            raise
        # What comes after the version tells why it is not there: cleaned up, or not committed yet.
        return choose(0, to_version=None), hint


def _patiently(choose: Callable[[], LogSegment], config: Config) -> LogSegment:
    """Choose, listing again when a commit seems missing: it may not be visible yet."""
    for attempt in range(_GAP_TRIES):
        try:
            return choose()
        except LogGapError:
            if attempt == _GAP_TRIES - 1:
                raise
            time.sleep(min(config.retry_base_seconds * 2**attempt, config.retry_cap_seconds))
    raise AssertionError  # pragma: no cover


def undamaged_segment(
    store: Store, config: Config, segment: LogSegment, error: LogCorruptError
) -> LogSegment:
    """Return another segment for the same version, without the file that is damaged.

    Args:
        store: Where the table is.
        config: Settings of the engine.
        segment: What was being read.
        error: What reading it raised.

    Raises:
        LogCorruptError: `error` itself, if the damage is in a commit or the log has no other
            segment for the version.
    """
    if (uncompacted := segment.without(error.file)) is not None:
        logger.warning("ignoring a damaged compaction: %s", error)
        return uncompacted
    checkpoint = segment.checkpoint
    # Parquet is whole or cannot be read, so a checkpoint that lacks an action was written like
    # that, and every engine refuses it. JSON may have been truncated.
    is_wrong = isinstance(error, IncompleteLogError) and error.file.endswith(".parquet")
    if checkpoint is None or is_wrong or not checkpoint.may_include(error.file):
        raise error
    excluded = segment.excluded | {checkpoint.name}
    try:
        found, _ = find_segment(store, config, version=segment.version, excluded=excluded)
    except DeltaError:
        raise error from None
    logger.warning("ignoring a damaged checkpoint: %s", error)
    return found
