"""The change data feed: which rows were inserted, deleted or updated, version by version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.changes.change_feed import ChangeFeed, find_changes
    from lazydelta.changes.change_rows import CHANGE_FIELDS
    from lazydelta.changes.change_splits import ChangeSplit, read_changes, split_changes
    from lazydelta.changes.commit_changes import read_commits
    from lazydelta.changes.schema_compatibility import schema_incompatibility
    from lazydelta.changes.version_range import (
        ChangeRange,
        RequestedRange,
        check_readable,
        find_range,
    )

__all__ = [
    "CHANGE_FIELDS",
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

__getattr__ = lazy_exports(
    __name__,
    {
        "change_feed": ("ChangeFeed", "find_changes"),
        "change_rows": ("CHANGE_FIELDS",),
        "change_splits": ("ChangeSplit", "read_changes", "split_changes"),
        "commit_changes": ("read_commits",),
        "schema_compatibility": ("schema_incompatibility",),
        "version_range": ("ChangeRange", "RequestedRange", "check_readable", "find_range"),
    },
)
