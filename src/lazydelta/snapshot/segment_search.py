"""Find the log segment of a version, and another one if a file of it is corrupt.

The only place that handles corrupt checkpoints and compacted commits: loading a snapshot, scanning
it and reading its other actions all call it with their error.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from lazydelta._parallel import start_thread
from lazydelta.errors import (
    DeltaError,
    LogCorruptError,
    LogGapError,
    StoreError,
    TableNotFoundError,
    VersionNotFoundError,
)
from lazydelta.log import LOG_DIRECTORY, LogSegment, choose_segment, list_log
from lazydelta.log.checkpoints import has_hint, read_hint
from lazydelta.snapshot import tuning
from lazydelta.snapshot.not_found import table_not_found
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.config import Config
    from lazydelta.log import LogFile
    from lazydelta.log.checkpoints import CheckpointHint
    from lazydelta.store import Store

__all__ = ["IncompleteLogError", "find_segment", "newer_segment", "undamaged_segment"]

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
    """List the log and select the segment of a version, by default the latest.

    Raises:
        StoreError: The listing is empty, but the log has a checkpoint hint, or may have one.
    """

    def choose(files: Sequence[LogFile]) -> LogSegment:
        return choose_segment(
            store.root,
            files,
            version=version,
            use_compaction=config.use_log_compaction,
            excluded=excluded,
        )

    hint, files, is_full = _first_listing(store, version, use_hint=not excluded)
    with suppress(LogGapError, TableNotFoundError, VersionNotFoundError):
        segment = choose(files)
        if is_full or segment.checkpoint is not None:
            return segment, hint
    try:
        return _retry_gaps(lambda: choose(list_log(store, to_version=version)), config), hint
    except (LogGapError, TableNotFoundError, VersionNotFoundError) as error:
        missing: DeltaError = error
    try:
        if version is None:
            raise missing
        # Later versions tell why this one is missing: cleaned up, or not committed yet.
        return choose(list_log(store)), hint
    except TableNotFoundError:
        if hint is not None or has_hint(store):
            raise _empty_listing(store.root) from None
        raise table_not_found(store.root) from None


def newer_segment(store: Store, config: Config, previous: LogSegment) -> LogSegment | None:
    """Return the segment of the latest version, listing only what may be newer.

    None if a full listing is needed: the log is not that of the previous segment, because the
    table was replaced or cleaned up, or the tail has become long.

    Commits of this process have no modification time before they are listed. Log files never
    change: if the newest file that was listed before is there as it was, so are the commits after
    it.
    """
    checkpoint = () if previous.checkpoint is None else previous.checkpoint.files
    files = (*previous.commits, *previous.tail, *checkpoint)
    listed = [file for file in (*checkpoint, *previous.commits) if file.modified_ms]
    is_long = len(previous.commits) > tuning.EXTENDED_COMMITS
    if previous.excluded or not listed or is_long:
        return None
    known = {file.name: file for file in files if file.modified_ms}
    if previous.checksum is not None:
        known[previous.checksum.name] = previous.checksum
    first = listed[-1].version
    newer = {file.name: file for file in list_log(store, from_version=first)}
    required = [file.name for file in files if file.version >= first]
    same = [file for file in listed if file.version == first]
    if any(newer.get(f.name) != f for f in same) or not newer.keys() >= set(required):
        return None
    try:
        return choose_segment(
            store.root,
            sorted((known | newer).values(), key=lambda file: (file.version, file.name)),
            version=None,
            use_compaction=config.use_log_compaction,
        )
    except DeltaError:
        return None


def _first_listing(
    store: Store, version: int | None, *, use_hint: bool
) -> tuple[CheckpointHint | None, list[LogFile], bool]:
    """Return the hint, the log files from its checkpoint on, and whether they are all there are.

    A remote log is listed from its start while the hint is read: one round trip if the log has a
    single page. A longer one is listed again from the hint's version.
    """

    def usable(hint: CheckpointHint | None) -> int:
        is_usable = use_hint and hint is not None and (version is None or hint.version <= version)
        return hint.version if hint is not None and is_usable else 0

    if is_local(store):
        hint = read_hint(store)
        files = list_log(store, from_version=usable(hint), to_version=version)
    else:
        reading = start_thread(lambda: read_hint(store))
        files = list_log(store, to_version=version, skip_to=lambda: usable(reading.result()))
        hint = reading.result()
    first = usable(hint)
    return hint, files, not first or any(file.version < first for file in files)


def _empty_listing(table: str) -> StoreError:
    """Return the error for a log with a hint and without files.

    It must not look like a missing table: a write would create a new one over it.
    """
    return StoreError(
        f"{table}/{LOG_DIRECTORY}",
        "the listing is empty, although _last_checkpoint exists. Check that the store, and a proxy "
        "before it, answers listings, and that the log was not deleted",
    )


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
