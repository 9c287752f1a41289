"""Numbers that tune checkpoints, checksums and log compactions; users do not set them."""

from __future__ import annotations

__all__ = [
    "BLOCK_ROWS",
    "BOUND_CHARACTERS",
    "CAUGHT_UP_COMMITS",
    "CLUSTERING_COLUMNS",
    "COMPACTED_FILES",
    "COMPACTION_FALSE_POSITIVE_RATE",
    "COUNTED_FILES",
    "DECODED_BATCHES_AHEAD",
    "DELETED_TOGETHER",
    "EXTRA_KEYS",
    "FETCHED_BYTES",
    "HINT_ACTIONS",
    "HINT_SCHEMA_CHARACTERS",
    "JSON_DEPTH",
    "JSON_LINE_BYTES",
    "LISTED_ACTIONS",
    "LOG_BYTES_PER_KEY",
    "MIN_LOG_AGE_MS",
    "POOL_ROWS",
    "REPLAY_BATCH_ROWS",
    "ROW_GROUPS_AHEAD",
    "ROW_GROUP_ROWS",
    "RUN_ROWS",
    "RUN_WRITERS",
    "SIDECAR_ROWS",
    "SIDECAR_UPLOADS",
    "SORT_COLUMNS",
    "WRITE_BATCH_ROWS",
    "ZSTD_LEVELS",
]

# --- replay

REPLAY_BATCH_ROWS = 8_192
"""Rows of a checkpoint that are decoded together: a few megabytes."""
DECODED_BATCHES_AHEAD = 4
"""Batches of the old checkpoint that are decoded while commits are read."""
FETCHED_BYTES = 16 << 20
"""Bytes of a remote checkpoint that are requested together."""
EXTRA_KEYS, LOG_BYTES_PER_KEY = 1_000, 100
"""Expected file keys of a log tail: few for a small one, at most one in so many bytes."""
COMPACTED_FILES, COMPACTION_FALSE_POSITIVE_RATE = 1_000, 0.01
"""Initial size of the set of seen files: a compaction covers few commits."""

# --- sort

CLUSTERING_COLUMNS = 4
"""Clustering columns to sort by: a table is rarely clustered by more."""
SORT_COLUMNS = 2
"""Columns to sort an unclustered table by: the second one rarely decides."""
POOL_ROWS = 98_304
"""Rows that wait for later ones before the sort spills: twelve batches of a replay."""
RUN_ROWS = 28_672
"""Rows of a spilled run: four batches of a replay, some of whose rows are not live."""
BLOCK_ROWS = 1_024
"""Rows of a run that are read at a time, about 0.6 MB, where runs are merged by value."""
RUN_WRITERS = 2
"""One run is written while the next one is sorted."""

# --- files

ROW_GROUP_ROWS = 32_768
"""A partition of a large table spans few row groups, and footers stay small."""
SIDECAR_ROWS = 4 * ROW_GROUP_ROWS
"""Large enough for few requests, small enough to skip by its zone map."""
SIDECAR_UPLOADS = 4
"""Sidecars that are uploaded and validated at once, while the next one is encoded."""
ROW_GROUPS_AHEAD = 1
"""One row group is encoded while the next one is sorted."""
WRITE_BATCH_ROWS = 4_096
"""Rows that Parquet encodes before it checks the page size."""
JSON_LINE_BYTES, JSON_DEPTH = 1 << 30, 256
"""Generous: the lines are our own."""
ZSTD_LEVELS = {"add.path": 1, "remove.path": 1, "add.stats": -3}
"""Every plan reads paths, and zstd halves them compared with Snappy. JSON statistics are most of a
checkpoint: at level -3 zstd writes them faster than Snappy, and smaller."""
BOUND_CHARACTERS = 256
"""A zone map omits longer bounds: tags are in the manifest and in `_last_checkpoint`."""

# --- `_last_checkpoint` and checksums

HINT_SCHEMA_CHARACTERS = 8_000
"""`_last_checkpoint` omits a longer schema, so that it stays a small file."""
HINT_ACTIONS = 30
"""`_last_checkpoint` omits longer lists of sidecars or non-file actions."""
COUNTED_FILES = 5_000
"""So many files are counted in a few milliseconds, hardly more than a commit takes."""
CAUGHT_UP_COMMITS = 20
"""Commits without a checksum that a checksum catches up with; a handle has read most of them."""
LISTED_ACTIONS = 1_000
"""A checksum omits longer lists of transactions or domains: every commit rewrites them."""

# --- log cleanup

MIN_LOG_AGE_MS = 60 * 60 * 1000
"""Younger commits are never deleted: writers rely on those since their last listing, and they list
again after ten minutes."""
DELETED_TOGETHER = 1000
"""Log files of one delete call: the largest bulk delete of S3."""
