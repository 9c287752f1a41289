"""Resolve the argument of every adapter to a `RowScan`, which can be narrowed and read."""

from __future__ import annotations

from typing import Any

from lazydelta.errors import ConfigError
from lazydelta.scan import RowScan, Scan
from lazydelta.table import Snapshot, Table

__all__ = ["RowScan", "Source", "as_row_scan", "check_name"]

Source = Table | Snapshot | RowScan


def check_name(name: Any) -> None:
    """Validate the name of a SQL table.

    Raises:
        ConfigError: It is not a string, or it is empty.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError("name", f"must be a non-empty string, not {name!r:.80}")


def as_row_scan(source: Any) -> RowScan:
    """Return the scan or change feed of a source; a `Table` is pinned to its current version.

    Raises:
        ConfigError: The source is of another type.
    """
    if isinstance(source, RowScan):  # a scan or change feed, of this process or of a server
        return source
    if isinstance(source, Snapshot):
        return Scan(source)
    if isinstance(source, Table):
        return source.scan()
    kind = type(source).__name__
    raise ConfigError("source", f"must be a Table, Snapshot, Scan or ChangeFeed, not a {kind}")
