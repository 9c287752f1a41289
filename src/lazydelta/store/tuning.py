"""Tuning of the stores."""

from __future__ import annotations

LISTING_PAGE = 1000
"""Objects per page of a listing, the page size of S3."""

LEVEL_SECONDS = 60.0
"""More time for the listing of one directory without those below it, whose pages come together."""

COALESCE_GAP = 1 << 20
"""Byte ranges this close are fetched in one request: reading a gap is faster than a round trip."""

DISK_CACHE_BLOCKS = 8
"""Fraction of the disk cache that one block may take, and that is written between evictions."""

KEPT_CALLS = 10_000
"""Calls that a meter remembers one by one; its totals count all of them."""

CACHE_BYTES = 32 << 20
"""Bytes of log objects that a table handle keeps in memory."""

CACHED_BLOCK_BYTES = 1 << 20
"""Larger ranges are not cached: they are columns, which are read once."""

DELETE_THREADS = 16
"""Concurrent deletes where a bulk delete is not possible."""

UPLOAD_PART = 8 << 20
"""Bytes of a multipart upload kept in memory; S3 allows 10,000 parts of at least 5 MiB."""

ATTEMPT_SECONDS = 10.0
"""Time for one attempt to answer, with a body of up to `SMALL_BODY`."""

SMALL_BODY = 128 << 10
"""Bytes of a body that need no time of their own."""

STREAM_CHUNK = 1 << 20
"""Bytes of a longer body that are received, and timed, together."""

CHUNK_SECONDS = 30.0
"""Time for each chunk of a longer body: idle time ends it, not its length."""

HEDGE_AFTER_SECONDS = 2.0
"""A small read without an answer is sent a second time; most answers take a tenth of that."""

HEDGE_BYTES = 1 << 20
"""Longer answers are not sent a second time: two of them would share the bandwidth."""

RANGE_PART = 8 << 20
"""Longer reads are split into ranges of this size, so that a failure repeats one of them."""

RANGE_REQUESTS = 16
"""Concurrent requests of one read."""

DELETES_PER_SECOND = 25
"""Slowest rate of deletes where a bulk delete is not possible."""

LONGEST_REASON = 600
"""Characters of a store's message in an error: an answer may be a whole page."""

REQUEST_TIMEOUT = "15m"
"""Default timeout of the client for a request with its body; attempts have shorter ones."""

UPLOAD_READ_TIMEOUT = "120s"
"""Time without an answer after which the part of a multipart upload is sent again."""

UPLOAD_RETRIES = 3
"""Retries of the client for one part of a multipart upload, which no other layer can repeat."""

CLIENT_RETRY: dict[str, float] = {
    "max_retries": 0,
    "retry_timeout": 60.0,
    "backoff_config.init_backoff": 0.1,
    "backoff_config.max_backoff": 3.0,
    "backoff_config.base": 2.0,
}
"""Default retries of the client: none, because `RetryingStore` retries."""

MIN_SECRET_LENGTH = 4
"""Shorter option values (`true`, a port) are not redacted from errors."""

WRITEBACK_BYTES = 16 << 20
"""Unflushed bytes after which the kernel starts writing a local file to disk."""

DIRECTORY_CACHE = 4096
"""Directories of a local table whose real path is cached."""

CREDENTIAL_SECONDS = 600.0
"""For how long obstore may cache a credential; it calls the provider again after half of it. A
credential is refreshed that half before it expires, or at half of a shorter lifetime."""

CREDENTIAL_RETRY_SECONDS = 15.0
"""Time until the next refresh after one that failed."""
