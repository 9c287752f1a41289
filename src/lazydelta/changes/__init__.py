"""The change data feed: which rows were inserted, deleted or updated, version by version."""

from __future__ import annotations

from lazydelta.changes.change_feed import ChangeFeed, find_changes
from lazydelta.changes.change_splits import ChangeSplit, read_changes, split_changes
from lazydelta.changes.commit_changes import read_commits
from lazydelta.changes.schema_compatibility import schema_incompatibility
from lazydelta.changes.version_range import ChangeRange, RequestedRange, check_readable, find_range

__all__ = [
    "ChangeFeed",
    "ChangeRange",
    "ChangeSplit",
    "RequestedRange",
    "check_readable",
    "find_changes",
    "find_range",
    "read_changes",
    "read_commits",
    "schema_incompatibility",
    "split_changes",
]
