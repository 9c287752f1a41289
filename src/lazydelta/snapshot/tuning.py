"""Tuning of snapshots."""

from __future__ import annotations

MAX_LISTINGS = 3
"""Listings before a gap is an error: a new commit may not be visible yet."""

BYTES_PER_ADD = 512
"""Estimated size of an add in a commit, which turns listed sizes into file counts."""

PREFETCH_COMMITS = 64
"""Newest commits of a tail that are requested before they are needed."""

PREFETCH_FILE_BYTES = 4 << 20
"""Larger log files are not requested before they are needed."""

EXTENDED_COMMITS = 100
"""Commits after the checkpoint up to which a segment is extended. A full listing finds a checkpoint
that was written after the versions that follow it."""
