"""Numbers that tune the servers; settings are in `ServeConfig`."""

from __future__ import annotations

MAX_INTEGER = 2**63 - 1
"""Largest integer of a request: Arrow's counts have 64 bits."""

MAX_TEXT_BYTES = 32_768
"""Longest string of a request: a predicate of some thousand values."""

MAX_NAMES = 2000
"""Most columns or capabilities that a request names."""

OPEN_TABLES_AT_MOST = 256
"""Handles of tables below a root that are kept; each has the last snapshot of a remote table."""
