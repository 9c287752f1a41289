"""Numbers that tune maintenance; users do not set them."""

from __future__ import annotations

__all__ = [
    "DELETED_TOGETHER",
    "DELETE_THREADS",
    "FAILURES_IN_A_ROW",
    "LISTED_FAILURES",
    "LISTED_FILES",
    "LISTED_PATHS",
    "LISTING_RANGES",
    "SAMPLED_PATHS",
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
LISTING_RANGES = 32
"""Ranges of names that are listed at once."""
SAMPLED_PATHS = 64
"""Paths of each batch of the log that choose the ranges of a listing."""
