"""Resolve the argument of every adapter to a `Feed`, which can be narrowed and read.

Tables, snapshots and scans are feeds of rows; a change feed is a feed of row changes.
"""

from __future__ import annotations

from typing import Any

from lazydelta.changes import ChangeFeed
from lazydelta.errors import ConfigError
from lazydelta.scan import Feed, Scan
from lazydelta.table import Snapshot, Table

__all__ = ["Feed", "Source", "as_feed", "check_name"]

Source = Table | Snapshot | Scan | ChangeFeed


def check_name(name: Any) -> None:
    """Validate the name of a SQL table.

    Raises:
        ConfigError: It is not a string, or it is empty.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError("name", f"must be a non-empty string, not {name!r:.80}")


def as_feed(source: Any) -> Feed:
    """Return the feed behind a source; a `Table` is pinned to its current version.

    Raises:
        ConfigError: The source is of another type.
    """
    if isinstance(source, Scan | ChangeFeed):
        return source
    if isinstance(source, Snapshot):
        return Scan(source)
    if isinstance(source, Table):
        return source.scan()
    kind = type(source).__name__
    raise ConfigError("source", f"must be a Table, Snapshot, Scan or ChangeFeed, not a {kind}")
