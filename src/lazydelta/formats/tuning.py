"""Tuning numbers of the formats room."""

from __future__ import annotations

__all__: list[str] = []

JSON_BATCH_ROWS = 1 << 20
"""Rows that the JSON decoder returns at once: a block of lines is one batch."""
FEW_LINES = 32
"""Lines up to which Python's `re` is used: Arrow compiles its pattern again for each call."""
MAX_STATS_SHAPES = 4
"""Shapes of `stats` that are tried as regular expressions before the JSON decoder is used."""
MIN_SHAPE_SHARE = 0.25
"""Share of the remaining rows that must have a shape for another one to be tried."""
STATS_BATCH_ROWS = 65_536
"""Rows of `stats` that the JSON decoder returns at once."""
MAX_EXPANDED_ROWS = 1 << 27
"""Deleted rows of a file that are expanded to list their ranges: a gigabyte of row numbers."""
