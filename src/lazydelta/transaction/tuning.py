"""Numbers that tune commits. What a user may set is in `Config`."""

from __future__ import annotations

TORN_READS = 3
"""Reads of a commit that does not parse: a store without atomic writes may show part of it."""
GAP_LISTINGS = 2
"""Listings in which a commit may be missing between others, on stores with delayed listings."""
MAX_USER_METADATA_BYTES = 1 << 20
"""Commit metadata of a caller: every reader of the log parses it."""
FRESH_MS = 10 * 60 * 1000
"""Age of a listing below which log cleanup cannot have removed later commits."""
PENDING_COMMITS = 64
"""Commits whose background hooks may wait; a further commit waits for the first of them."""
CONFLICT_BASE_SECONDS = 0.001
"""First backoff after a conflict. The next version is free at once; the backoff only keeps many
writers from attempting in lockstep."""
CONFLICT_CAP_SECONDS = 0.05
"""Longest backoff after a conflict."""
