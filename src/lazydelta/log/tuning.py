"""Tuning of log reads."""

from __future__ import annotations

FIRST_BLOCK_BYTES = 64 << 10
"""Bytes of the newest commits decoded first, so that the first file is returned early."""

BLOCK_BYTES = 1 << 20
"""Bytes of commits decoded together: starting a decoder costs more than a few lines."""

STREAMED_BYTES = 16 << 20
"""Larger commits are streamed in blocks, to bound memory."""

CACHED_BYTES = 16 << 20
"""Bytes of commits that a reader caches for a second read."""

MAX_LISTED_GAP = 1000
"""Missing versions named in an error."""

MAX_HINT_BYTES = 1 << 20
"""A larger `_last_checkpoint` is ignored."""

OPTIONAL_SECONDS = 5.0
"""Time to read the hint or a checksum; without them more is read, and nothing else."""

MAX_CHECKSUM_BYTES = 64 << 20
"""A larger `.crc` file is ignored."""

LOCAL_BUFFER_BYTES = 1 << 20
"""Read buffer of local checkpoints: the page cache makes small reads cheap."""

MANIFEST_ROWS = 8192
"""Rows per batch when searching a checkpoint for actions other than adds."""

MIN_THREADED_BYTES = 4 << 20
"""Column bytes from which paths and other columns are decoded in parallel."""

MIN_NATIVE_BYTES = 2 << 20
"""Column bytes from which the native decoder is faster than pyarrow."""

DECODED_AHEAD = 4
"""Decoded batches that wait for the consumer."""

LEAVES_AHEAD = 16
"""Remote leaf files opened ahead."""
