"""What every adapter is given, brought to one thing: a `Feed`, which can be narrowed and read.

A table, a snapshot and a scan are feeds of rows; a change feed is one of changes.
"""

from __future__ import annotations

from typing import Any

from lazydelta.changes import ChangeFeed
from lazydelta.errors import ConfigError
from lazydelta.scan import Feed, Scan
from lazydelta.snapshot import Snapshot
from lazydelta.table import Table

__all__ = ["Feed", "Source", "as_feed", "check_name"]

Source = Table | Snapshot | Scan | ChangeFeed


def check_name(name: Any) -> None:
    """Refuse what no table in SQL can be called.

    Raises:
        ConfigError: It is no text, or empty.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError("name", f"a table needs a name, not {name!r:.80}")


def as_feed(source: Any) -> Feed:
    """Return the feed behind a source; a `Table` is pinned to the version it has now.

    Raises:
        ConfigError: It is none of them.
    """
    if isinstance(source, Scan | ChangeFeed):
        return source
    if isinstance(source, Snapshot):
        return Scan(source)
    if isinstance(source, Table):
        return source.scan()
    kind = type(source).__name__
    raise ConfigError("source", f"give a Table, a Snapshot, a Scan or a ChangeFeed, not a {kind}")
