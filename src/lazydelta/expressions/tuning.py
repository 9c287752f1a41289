"""Numbers that tune expressions; not part of `Config`."""

from __future__ import annotations

MAX_DERIVED_OPTIONS = 32
"""Options of IN for which conditions on generated partition columns are derived: each adds one."""
