"""Tuning numbers of file planning."""

from __future__ import annotations

SHARED_NULLS_MIN = 1 << 12
"""Above this length, null arrays are slices of one shared array; shorter ones are cheap to make."""
SHARED_NULLS_MAX = 1 << 16
"""Length of that shared array, per type."""
DECODED_BATCHES_AHEAD = 4
"""Checkpoint batches decoded ahead of a slow consumer."""
WHOLE_ROWS = 1 << 15
"""Row groups of at most this many rows are decoded at once by a scan that does not read ahead. A
decoder between two batches holds more than their rows; of a larger row group it holds less."""
FIRST_WINDOW_BYTES = 4 << 20
"""Bytes of the first row groups of a remote checkpoint that are fetched together."""
WINDOW_BYTES = 32 << 20
"""The same of the following ones."""
WINDOWS_AHEAD = 1
"""Windows fetched while one is decoded."""
FULL_SCAN_BATCH_FACTOR = 2
"""Scans without a limit decode this many times `Config.batch_rows` per batch: fewer calls."""
MIN_SPLIT_BYTES = 16 << 20
"""A task for fewer bytes than this costs more than it saves."""
FILE_OPEN_BYTES = 64 << 10
"""Cost of opening a log file, in bytes that could be read in that time."""
RUN_ROWS = 1 << 16
"""Rows from which row groups are decoded in a call of their own: the native decoder pays then,
and a resumed scan repeats no more than one call."""
