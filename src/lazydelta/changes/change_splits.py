"""A range of changes cut into parts that other processes read, each on its own.

What a cluster needs: a plan of parts made from the names and sizes of commits (`split_changes`),
and the changes of one part (`read_changes`), by the plan and the reader of the feed in this
process. How parts are sent round is the engine's business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from lazydelta.changes.change_plan import ChangeCounts, ChangePlan
from lazydelta.changes.change_rows import ChangeReader
from lazydelta.scan.read import read_ahead
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lazydelta.changes.version_range import ChangeRange
    from lazydelta.config import ReadOptions
    from lazydelta.expressions import Predicate

__all__ = ["ChangePart", "read_changes", "split_changes"]

_BYTES_PER_FILE = 512
"""About what a file action takes in a commit."""
_FILES_PER_PART = 64
_COMMITS_PER_PART = 64
_MOST_SHARES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePart:
    """Some consecutive commits of a range, or a share of the files that tell of one commit."""

    first: int
    """The place of the first commit in the range."""
    end: int
    share: int = 0
    shares: int = 1


def split_changes(found: ChangeRange) -> list[ChangePart]:
    """Cut a range into parts of about equal work, as far as the sizes of its commits tell."""
    parts: list[ChangePart] = []
    most = _FILES_PER_PART * _BYTES_PER_FILE
    first, weight = 0, 0
    for place, commit in enumerate(found.commits):
        full = weight + commit.size > most or place - first >= _COMMITS_PER_PART
        if full and place > first:
            parts.append(ChangePart(first=first, end=place))
            first, weight = place, 0
        weight += commit.size
        if weight > most:  # a commit too large for one part
            shares = min(-(-weight // most), _MOST_SHARES)
            parts += [
                ChangePart(first=place, end=place + 1, share=share, shares=shares)
                for share in range(shares)
            ]
            first, weight = place + 1, 0
    if first < len(found.commits):
        parts.append(ChangePart(first=first, end=len(found.commits)))
    return parts


def read_changes(
    found: ChangeRange,
    part: ChangePart,
    *,
    columns: Sequence[str] | None,
    where: Predicate | None,
    options: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of one part, in the schema of the whole range.

    Args:
        found: The whole range.
        part: Which part of it.
        columns: What to show; None shows all.
        where: Only changes that match.
        options: How rows are read; how they are shown is not looked at.

    Raises:
        ChangeFeedDisabledError: A version did not record its changes.
        ChangeFeedSchemaError: The last version's schema cannot show all rows.
        DataFileNotFoundError: A file is gone, as after a vacuum.
    """
    commits = found.commits[part.first : part.end]
    start = found.start
    if part.first:  # what its commits mean depends on the protocol they began with
        start = load_snapshot(start.store, start.config, version=commits[0].version)
    here = replace(found, commits=commits, times=found.times[part.first : part.end], start=start)
    reader = ChangeReader(found.end, columns=columns, where=where, options=options)
    tasks = ChangePlan(here, reader, ChangeCounts()).tasks()
    return read_ahead(
        islice(tasks, part.share, None, part.shares),
        reader.read,
        width=options.files_at_once or 1,
        memory_limit=options.memory_limit,
        ordered=True,
    )
