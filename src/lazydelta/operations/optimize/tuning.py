"""Numbers that tune OPTIMIZE. What a caller may set are arguments, or settings of `Config`."""

from __future__ import annotations

MIN_SIZE_SHARE = 0.75
"""Share of the target size from which a file is left alone, so that it is not rewritten for a few
rows."""
MAX_DELETED_SHARE = 0.05
"""Share of deleted rows above which a large file is rewritten too, as in Spark."""
BATCH_BYTES = 4 << 30
"""Input of one commit: a crash or a lost race costs at most this much work."""
BATCH_FILES = 100_000
"""Input files after which a commit ends: their add actions are in memory until then."""
BINS_AT_ONCE = 4
"""Bins rewritten in parallel; more of them would each have too little memory."""
MEMORY_PARTS = 2
"""Parts of `operation_memory` at least: a clustered bin also needs memory to sort."""
READ_SHARE = 16
WRITE_SHARE = 6
"""The part of a bin's memory for decoded batches, and for rows of a row group. Decoders, encoders
and the allocator need the rest."""
MAX_ROUNDS = 5
"""How often a bin is rewritten after concurrent deletes before it is left for a later run."""

# --- clustering

SAMPLE_FILES = 64
SAMPLE_ROWS = 4096
"""Files of which the ranges are sampled, and rows of each batch of them."""
EXPANSION = 4
"""Bytes of rows in memory for each byte of a file, at most; it only decides on the number of
buckets."""
BUCKET_SHARE = 8
"""The part of `operation_memory` that is sorted at once."""
BUCKET_SLACK = 2
"""How much larger than planned a bucket may be before it is split again."""
MAX_BUCKETS = 256
"""Open temporary files."""
MAX_SPLITS = 3
"""How often a bucket is split again: each time by a thousand ranges a column."""
SORTED_ROWS = 1 << 17
"""Rows of a sorted batch."""
JOIN_RATIO = 2
"""A clustered file joins new ones if it overlaps with them and all such files of its run have at
most this many times their bytes. Runs of similar size are merged, so that there are few, and a
small write never rewrites a large table."""
OVERLAP_BOXES = 256
"""Bounding boxes of new files that clustered files are compared with."""
CUBE_BYTES = 64 << 30
"""Input that is clustered at once; its rows go through temporary files."""
