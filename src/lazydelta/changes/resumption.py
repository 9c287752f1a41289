"""Resuming a change feed: the commits from the position of a token on, with the same times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lazydelta.changes.change_rows import ChangePosition
from lazydelta.changes.version_range import ChangeRange, RequestedRange, find_range
from lazydelta.errors import (
    LogGapError,
    ResumeTokenError,
    ResumeTokenExpiredError,
    VersionNotFoundError,
)
from lazydelta.scan import resume
from lazydelta.snapshot import file_times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.changes.change_rows import FileTask
    from lazydelta.scan.resume import ResumeToken

__all__ = ["first_token", "resumed_range", "tasks_from"]


def first_token(change_range: ChangeRange, *, scan: str, limit: int | None) -> ResumeToken:
    """Return the token of the start of a range."""
    end, commits = change_range.end, change_range.commits
    first = commits[0].version if commits else end.version
    return resume.ResumeToken(
        kind="changes",
        table=resume.table_name(end.metadata.id),
        version=end.version,
        log=_log_digest(change_range),
        scan=scan,
        strategy="versions",
        limit=limit,
        position=ChangePosition(first, 0, 0, 0, 0, 0),
    )


def resumed_range(change_range: ChangeRange, token: ResumeToken) -> ChangeRange:
    """Return the range from the position of a token to its end.

    Args:
        change_range: Any range of the table.
        token: The token.

    Raises:
        ResumeTokenError: The token has no position in a change feed.
        ResumeTokenExpiredError: Log cleanup has removed commits that it continues in.
    """
    store, config = change_range.end.store, change_range.end.config
    position, table = ChangePosition(*token.position), store.root
    if position.version > token.version:
        raise ResumeTokenError(table, "its position is after its end")
    requested = RequestedRange(starting_version=position.version, ending_version=token.version)
    try:
        found = find_range(store, config, requested)
    except (VersionNotFoundError, LogGapError):
        reason = f"log cleanup has removed commits from version {position.version} on"
        raise ResumeTokenExpiredError(table, reason) from None
    if token.log != _log_digest(found):
        raise ResumeTokenExpiredError(table, f"the commit of version {token.version} was replaced")
    if found.times[0] is None or not position.time:
        return found
    # The time of a commit is never before that of the commits before it, which are not listed.
    listed = (found.commits[0]._replace(modified_ms=position.time), *found.commits[1:])
    return replace(found, times=tuple(file_times(listed, found.end)))


def tasks_from(tasks: Iterator[FileTask], start: ChangePosition) -> Iterator[FileTask]:
    """Yield the files from a position on; the first one starts at the row group."""
    for task in tasks:
        if task.version == start.version and task.index < start.file:
            continue
        if task.version == start.version and task.index == start.file:
            yield replace(task, first=(start.kind, start.row_group))
        else:
            yield task


def _log_digest(change_range: ChangeRange) -> str:
    return resume.digest([(file.name, file.size) for file in change_range.commits[-1:]])
