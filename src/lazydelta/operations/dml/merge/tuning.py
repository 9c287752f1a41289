"""Tuning of MERGE."""

from __future__ import annotations

HASHED_ROWS = 1 << 15
"""Rows that are hashed and looked up at once: their words stay in the processor's cache."""

INDEXED_ROWS = 1 << 18
"""Hashes that are added to the bitmap and directory at once: bounds the temporary arrays."""

BITMAP_BITS = 4
"""log2 of the least bits a key in the bitmap: of the keys without a match, 1 in 16 to 32 passes."""

PROBES_AT_MOST = 8
"""Steps from the directory's entry to a hash, before the rest is found by binary search."""

SORT_KEY_BYTES = 4 << 20
"""Bytes of the sort keys of a string column, if that is at least one word and at most
`SORT_KEY_WORDS` a key. Shorter sort keys rule out fewer files, but those of one word are sorted
twenty times as fast."""

SORT_KEY_WORDS = 4
"""Words of eight bytes in the longest sort key of a string."""

PAIRS_PER_BLOCK = 1 << 18
"""Candidate pairs that are evaluated at once, if keys are frequent or there is none."""

INSERTED_ROWS = 1 << 16
"""Source rows that are enforced and handed to the writer at once."""

FILES_WITH_BOUNDS = 1_000
"""Files of which at least one has bounds of a key, or a warning says that none is ruled out."""

MEMORY_SHARE = 8
"""A chunk of the source, finished batches of the reader and the buffer of the writer get this part
of `Config.operation_memory` each: chunks are copied once when they are read, the writer encodes as
much as it buffers, and the index and joined rows need the rest."""
