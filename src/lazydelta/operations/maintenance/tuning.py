"""Numbers that tune maintenance; users do not set them."""

from __future__ import annotations

__all__ = [
    "COMMITS_READ",
    "COMPARED_FILES",
    "DELETED_TOGETHER",
    "DELETE_THREADS",
    "DIRECTORY_LEVELS",
    "FAILURES_IN_A_ROW",
    "LISTED_FAILURES",
    "LISTED_FILES",
    "LISTED_PATHS",
    "LISTING_RANGES",
    "PARTITION_BYTES",
    "PARTITION_ROWS",
    "SAMPLED_PATHS",
    "SAMPLED_STATS",
    "SMALL_FILE_SHARE",
]

DELETED_TOGETHER = 1000
"""Files of one delete call: the largest bulk delete of S3."""
DELETE_THREADS = 16
"""Delete calls, or requests for the metadata of a file, at once."""
FAILURES_IN_A_ROW = 20
"""Failed deletes after which the rest of a batch is not attempted: access is denied."""
LISTED_FAILURES = 20
"""Failures that a result lists."""
LISTED_PATHS = 1000
"""Paths that a result lists, as many as a dry run of Delta Spark."""
LISTED_FILES = 1000
"""Files of a table above which one listing costs less than a request for each of them."""
LISTING_RANGES = 12
"""Ranges of names, or directories, that are listed at once."""
DIRECTORY_LEVELS = 2
"""Levels of directories that are listed one by one, until there are enough to list at once."""
SAMPLED_PATHS = 64
"""Paths of each batch of the log that choose the ranges of a listing."""

# --- health

SMALL_FILE_SHARE = 4
"""A file of less than a fourth of the target size is small: OPTIMIZE would join it with others."""
PARTITION_BYTES = 1 << 30
"""Smaller partitions are too many: a partition should hold at least a gigabyte."""
PARTITION_ROWS = 200_000
"""Partitions of batches that are counted together before they are joined."""
SAMPLED_STATS = 1000
"""Files whose statistics tell which columns have bounds."""
COMPARED_FILES = 500_000
"""Files whose bounds are compared for the overlap depth."""
COMMITS_READ = 1000
"""Commits whose operation and read version are looked up: the newest ones."""
