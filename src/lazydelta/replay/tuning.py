"""Tuning of the log replay."""

from __future__ import annotations

HASHED_BYTES = 1024
"""Bytes of a key that are hashed; longer keys with an equal prefix only cost a comparison."""

MAX_SPILLED_RUNS = 8
"""Sorted runs on disk before they are merged: every lookup searches all of them."""

MERGE_BUCKET_BITS = 6
"""Runs are merged in 2**6 hash ranges, each small enough to sort in memory."""

SMALL_BLOOM_KEYS = 1 << 12
"""Up to this many keys the Bloom filter is small: in a large one, most keys are a page fault."""
