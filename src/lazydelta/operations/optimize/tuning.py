"""Numbers that tune OPTIMIZE. What a caller may set are arguments, or settings of `Config`."""

from __future__ import annotations

MIN_SIZE_SHARE = 0.75
"""Share of the target size from which a file is left alone, so that it is not rewritten for a few
rows."""
MAX_DELETED_SHARE = 0.05
"""Share of deleted rows above which a large file is rewritten too, as in Spark."""
BATCH_BYTES = 4 << 30
"""Input of one commit: a crash or a lost race costs at most this much work."""
BINS_AT_ONCE = 4
"""Bins rewritten in parallel; more of them would each have too little memory."""
READ_SHARE = 8
WRITE_SHARE = 4
"""The part of a bin's memory for decoded batches, and for rows to encode (twice: one part is
buffered while another one is encoded)."""
MAX_ROUNDS = 5
"""How often a bin is rewritten after concurrent deletes before it is left for a later run."""
