"""Tuning numbers of metadata aggregates."""

from __future__ import annotations

FIRST_WAVE_FILES = 2
"""Files read in the first round of a min/max search, per side; each round doubles it."""
MAX_WAVE_FILES = 1024
"""Upper bound of that number."""
MAX_PENDING_FILES = 65_536
"""Undecided files held in memory before some are read."""
DISTINCT_BATCH_ROWS = 65_536
"""Partition rows collected before duplicates are removed."""
