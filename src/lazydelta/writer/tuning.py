"""Numbers that tune writes. What a user may set is in `WriteOptions`; these are its defaults."""

from __future__ import annotations

# --- rows that a caller writes

BATCH_ROWS = 1 << 18
"""Input batches are sliced to this size: a slice is free, and bounds memory downstream."""
BUFFERED_BYTES = 64 << 20
"""Items of an iterable that are buffered at most until every column has a type."""
LONGEST_VALUE = 100
"""Characters of a value in an error message."""

# --- data files

TARGET_FILE_BYTES = 128 << 20
"""Default of `delta.targetFileSize`: large enough to scan well, small enough to rewrite."""
SIZE_SLACK = 0.15
"""Share of the target size that a file may miss or exceed, rather than get a tiny row group."""
SMALLEST_PART_BYTES = 64 << 10
"""In-memory bytes of the smallest part that rows are cut into, however small the target is."""
ROUTED_ROWS = 1 << 19
"""Rows sorted by partition at once: enough to amortize the sort, few enough for the CPU cache."""
LOCAL_OPEN_FILES = 512
"""Open files on a local disk; the usual limit of file descriptors is 1,024."""
REMOTE_OPEN_FILES = 32
"""Open files on an object store; each multipart upload buffers one part in memory."""
SPOOL_BUCKETS = 64
"""Temporary files of an optimized write; each has the rows of that share of the partitions."""
MAX_THREADS = 4
"""Encoding threads; more of them saturate memory bandwidth, not the CPU."""

VECTOR_FILE_BYTES = 2 << 20
"""Size at which a file of deletion vectors is full, as in Spark."""

# --- partition directories

MAX_NAME_BYTES = 255
"""Longest name of a directory on common file systems."""
MAX_DIRECTORY_BYTES = 512
"""Object keys have 1,024 bytes; the table's prefix and the file name need the rest."""
