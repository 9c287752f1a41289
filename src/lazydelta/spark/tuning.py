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
MAX_LOG_SLICES = 16
"""Of a part of the log, if tasks find their files there: each slice reads the part again."""
FUNCTION_ROWS = 1_000_000
"""Rows of the table function `delta_changes`: one task converts them one by one."""
MAX_ESTIMATED_ROWS = 1 << 26
"""Length of a range that states the size of a table: more than Spark broadcasts, and quick."""
MAX_BROADCAST_KEYS = 2_000_000
"""Files of the tail whose keys are broadcast instead of shuffled."""
MAX_SCANS = 64
"""Scans of Spark in one read: each tuple of partition values is one, and planning takes time."""
MAX_CONNECT_FILES = 32
"""Files of Spark's scan through Connect, which cannot change the listing threshold of one read."""
PUSHED_ARGUMENTS = 1000
"""Values of an `isin` of a DataFrame's filter, up to which it is pushed into the read."""
BROADCAST_SOURCE_BYTES = 32 * 2**20
"""Size of a MERGE's source up to which every executor gets all of it."""
SAMPLED_SOURCE_ROWS = 1_000
"""Rows that tell the size of a row of the source."""

# --- maintenance

REWRITTEN_TOGETHER = 64 << 30
"""Input of one commit of OPTIMIZE, and of one job: enough tasks for a large cluster."""
SELECTED_FILES = 500_000
"""Files of which one task packs the candidates into bins, if they are in several partitions."""
CLUSTERED_IN_ONE_TASK = 64 << 20
"""Size of a bin up to which one task clusters it, without a shuffle."""
CLUSTER_TASKS = 1000
"""Tasks that read the rows of a bin; each has at least a few files or megabytes."""
SAMPLE_TASKS = 16
SAMPLED_ROWS = 16_384
"""Tasks that sample rows of a bin, and rows of each file that the driver receives at most."""
SHUFFLE_BUFFER = 64 << 20
"""Rows that a task sorts before it sends them to their ranges."""
CLUSTER_EXPANSION = 4
CLUSTER_MEMORY_SHARE = 4
"""Bytes of rows for each byte of a file, and the part of `operation_memory` that a task sorts at
once: as in one process, where other threads use more of it."""
RANGE_SLACK = 1.5
"""How much larger than the target size the file of a range may be."""
FILES_LOOKED_UP = 10_000
"""Files that one task, or the driver alone, looks for before a RESTORE."""
COMMITS_IN_ONE_TASK = 50
COMMIT_TASKS = 50
"""Commits that a task of VACUUM reads at least, and tasks that read commits at most."""
LISTING_TASKS = 64
SAMPLED_PATHS = 2000
"""Ranges of names that are listed at once, and paths that choose them."""
DELETED_IN_ONE_TASK = 1000
DELETE_TASKS = 32
"""Files that a task deletes at least, and tasks at most; each sends several requests at once."""
LISTED_PATHS = 1000
LISTED_FAILURES = 20
"""Paths and failures that a result lists, as in one process."""
