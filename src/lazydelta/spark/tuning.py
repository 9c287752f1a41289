"""Tuning numbers of the Spark room. What a user may set are settings of the session."""

from __future__ import annotations

__all__: list[str] = []

PROBE_SECONDS = 20.0
"""Time for Spark to open a file of a store; without credentials a connector may try for minutes."""
PROBE_AGAIN_SECONDS = 60.0
"""Time until a store that Spark could not open is tried again."""
BUFFERED_POSITIONS = 1_000_000
"""Rows that a task buffers before it adds their positions to bitmaps; 16 bytes each."""
READ_TASKS = 32
"""Enough for a small cluster; large files make more tasks."""
BROADCAST_SOURCE_BYTES = 32 * 2**20
"""Size of a MERGE's source up to which every executor gets all of it."""
SAMPLED_SOURCE_ROWS = 1_000
"""Rows that tell the size of a row of the source."""
