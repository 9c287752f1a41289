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
MIN_TASK_BYTES, MAX_TASK_BYTES = 16 << 20, 128 << 20
"""Bytes of the files of one task, where their number allows it."""
OPEN_COST_BYTES = 4 << 20
"""Cost of opening a file, in bytes; the default of Spark's `parquet.openCostInBytes`."""
FILES_PER_TASK, MAX_TASKS = 64, 2000
"""Of a read whose files are not listed."""
FILES_PER_LOG_TASK, MAX_LOG_SLICES = 1000, 16
"""Of a data source whose tasks find their files in the log."""
MAX_BROADCAST_KEYS = 2_000_000
"""Files of the tail whose keys are broadcast instead of shuffled."""
MAX_SCANS = 64
"""Scans of Spark in one read: each tuple of partition values is one, and planning takes time."""
MAX_CONNECT_FILES = 32
"""Files of Spark's scan through Connect, which cannot change the listing threshold of one read."""
BROADCAST_SOURCE_BYTES = 32 * 2**20
"""Size of a MERGE's source up to which every executor gets all of it."""
SAMPLED_SOURCE_ROWS = 1_000
"""Rows that tell the size of a row of the source."""
