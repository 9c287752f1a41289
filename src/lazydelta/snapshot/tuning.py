"""Tuning of snapshots."""

from __future__ import annotations

MAX_LISTINGS = 3
"""Listings before a gap is an error: a new commit may not be visible yet."""

BYTES_PER_ADD = 512
"""Estimated size of an add in a commit, which turns listed sizes into file counts."""
