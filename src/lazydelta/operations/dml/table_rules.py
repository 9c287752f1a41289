"""What operations that copy or delete rows have to respect of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lazydelta.writer.columns import check_names
from lazydelta.writer.properties import CHANGE_FEED, is_enabled

if TYPE_CHECKING:
    from lazydelta.config import ReadOptions
    from lazydelta.snapshot import SnapshotState

__all__ = ["has_change_feed", "plain_rows"]


def has_change_feed(snapshot: SnapshotState) -> bool:
    """Whether the change data feed is enabled.

    Raises:
        SchemaError: The table has a column whose name the change feed reserves.
    """
    configuration = snapshot.metadata.configuration
    if not is_enabled(configuration, CHANGE_FEED):
        return False
    check_names(snapshot.schema, configuration, mapped=True, table=snapshot.store.root)
    return True


def plain_rows(snapshot: SnapshotState) -> ReadOptions:
    """Return the caller's read options without those that add or change columns."""
    return replace(
        snapshot.config.read,
        file_column_name=None,
        row_index_column=None,
        row_id_column=None,
        row_commit_version_column=None,
        schema=None,
    )
