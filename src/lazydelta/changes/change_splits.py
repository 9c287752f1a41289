"""Splits of a change feed for distributed reads: other processes read each split on its own.

`split_changes` plans splits from the sizes of the commits. `read_changes` reads one, with the plan
and the reader of a local change feed. The engine distributes the splits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from lazydelta.changes import tuning
from lazydelta.changes.change_plan import ChangeMetrics, ChangePlan
from lazydelta.changes.change_rows import ChangeReader
from lazydelta.scan.read import read_ahead
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lazydelta.changes.version_range import ChangeRange
    from lazydelta.config import ReadOptions
    from lazydelta.expressions import Predicate

__all__ = ["ChangeSplit", "read_changes", "split_changes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSplit:
    """Consecutive commits of a range, or a share of the files of one commit."""

    first: int
    """The index of the first commit in the range."""
    end: int
    share: int = 0
    shares: int = 1


def split_changes(change_range: ChangeRange) -> list[ChangeSplit]:
    """Split a range into work of about equal cost, estimated from the sizes of its commits."""
    splits: list[ChangeSplit] = []
    max_bytes = tuning.FILES_PER_SPLIT * tuning.BYTES_PER_ACTION
    first, size = 0, 0
    for index, commit in enumerate(change_range.commits):
        is_full = size + commit.size > max_bytes or index - first >= tuning.COMMITS_PER_SPLIT
        if is_full and index > first:
            splits.append(ChangeSplit(first=first, end=index))
            first, size = index, 0
        size += commit.size
        if size > max_bytes:  # this commit alone is too large for one split
            shares = min(-(-size // max_bytes), tuning.MAX_SPLITS_PER_COMMIT)
            splits += [
                ChangeSplit(first=index, end=index + 1, share=share, shares=shares)
                for share in range(shares)
            ]
            first, size = index + 1, 0
    if first < len(change_range.commits):
        splits.append(ChangeSplit(first=first, end=len(change_range.commits)))
    return splits


def read_changes(
    change_range: ChangeRange,
    split: ChangeSplit,
    *,
    columns: Sequence[str] | None,
    where: Predicate | None,
    options: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of one split, in the schema of the whole range.

    Args:
        change_range: The whole range.
        split: A split of it.
        columns: Columns to return; None means all.
        where: Only changes that match.
        options: How rows are read; options of the output conversion are ignored.

    Raises:
        ChangeFeedDisabledError: A version did not record its changes.
        ChangeFeedSchemaError: The last version's schema does not fit all rows.
        DataFileNotFoundError: A file is missing, as after a vacuum.
    """
    commits = change_range.commits[split.first : split.end]
    times = change_range.times[split.first : split.end]
    start = change_range.start
    if split.first:  # validation starts with the protocol of the split's first version
        start = load_snapshot(start.store, start.config, version=commits[0].version)
    split_range = replace(change_range, commits=commits, times=times, start=start)
    reader = ChangeReader(change_range.end, columns=columns, where=where, options=options)
    tasks = ChangePlan(split_range, reader, ChangeMetrics()).tasks()
    return read_ahead(
        islice(tasks, split.share, None, split.shares),
        reader.read,
        width=options.files_at_once or 1,
        memory_limit=options.memory_limit,
        ordered=True,
    )
