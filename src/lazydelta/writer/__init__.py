"""Turn a caller's rows into data files that conform to a table. No log, no commit.

Sub-packages: `enforcement` (schema and constraints), `columns` (names, identity, evolution),
`properties` (table properties and the protocol they require), `files` (layout and encoding).
Plans pickle, because Spark executors run them.
"""

from __future__ import annotations

from lazydelta.writer.row_sources import RowSource, as_source

__all__ = ["RowSource", "as_source"]
