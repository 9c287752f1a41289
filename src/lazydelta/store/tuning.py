"""Tuning of the stores."""

from __future__ import annotations

LISTING_PAGE = 1000
"""Objects per page of a listing, the page size of S3."""

COALESCE_GAP = 1 << 20
"""Byte ranges this close are fetched in one request: reading a gap is faster than a round trip."""

DELETE_THREADS = 16
"""Concurrent deletes where a bulk delete is not possible."""

UPLOAD_PART = 8 << 20
"""Bytes of a multipart upload kept in memory; S3 allows 10,000 parts of at least 5 MiB."""

REQUEST_TIMEOUT = "120s"
"""Default timeout of one request to an object store."""

CLIENT_RETRY: dict[str, float] = {
    "max_retries": 3,
    "retry_timeout": 60.0,
    "backoff_config.init_backoff": 0.1,
    "backoff_config.max_backoff": 3.0,
    "backoff_config.base": 2.0,
}
"""Default retries of the client; few, because `RetryingStore` retries on top of it."""

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
