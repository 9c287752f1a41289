"""The change data feed: which rows were inserted, deleted or updated, version by version."""

from __future__ import annotations

from lazydelta.changes.feed import ChangeFeed, find_changes
from lazydelta.changes.log import CommitChanges, read_commits
from lazydelta.changes.parts import ChangePart, read_changes, split_changes
from lazydelta.changes.range import AskedRange, ChangeRange, find_range
from lazydelta.changes.schema import schema_break

__all__ = [
    "AskedRange",
    "ChangeFeed",
    "ChangePart",
    "ChangeRange",
    "CommitChanges",
    "find_changes",
    "find_range",
    "read_changes",
    "read_commits",
    "schema_break",
    "split_changes",
]
