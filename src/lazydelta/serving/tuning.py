"""Numbers that tune the servers; settings are in `ServeConfig`."""

from __future__ import annotations

MAX_INTEGER = 2**63 - 1
"""Largest integer of a request: Arrow's counts have 64 bits."""

MAX_TEXT_BYTES = 32_768
"""Longest string of a request: a predicate of some thousand values."""

MAX_NAMES = 2000
"""Most columns or capabilities that a request names."""

OPEN_TABLES_AT_MOST = 256
"""Handles of tables below a root that are kept; each has the last snapshot of a remote table."""

POLL_SECONDS = 0.1
"""How often a request that waits for the listing of another one checks whether it was cancelled."""

PINNED_AT_MOST = 32
"""Snapshots that are kept for the next scans of their versions; each caches up to 16 MiB."""

PINNED_SECONDS = 60.0
"""How long a snapshot is used for new scans of its version after the log was listed."""

HISTOGRAM_SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
"""Bounds of the histograms: from a local first batch to a long scan."""

BODY_BYTES = 64 * 1024
"""Part of a batch that is written at once. The next batch is read when nearly all parts of the last
one are in the network, so a slow client holds one encoded batch."""

CLOSING_THREADS = 4
"""Threads that close scans: those that read may all wait for a slow store."""

TICKS_PER_TRIM = 10
"""Ticks of 0.1 s after which freed memory is returned to the system, if batches were read."""

SCAN_SETTINGS = {"prefetch_batches": 0, "checkpoint_row_groups_per_batch": 1}
"""Settings of the engine for many scans at once: each holds a row group and no thread."""

FAILED_LOGIN_SECONDS = 60.0
"""Over which failed logins of an address are counted."""

FAILED_ADDRESSES_AT_MOST = 10_000
"""Addresses whose failed logins are counted; the oldest are forgotten."""

HISTORY_AT_MOST = 1000
"""Commits of a history that a client can request."""

FORCED_STOP_SECONDS = 2.0
"""How long ended scans may take to send their last line at shutdown."""

MAPPED_BYTES = 1 << 20
"""Blocks of at least this size are returned to the system when they are freed; by default the C
library would keep later ones in its heap, where small ones that live longer pin them. Each is also
mapped anew: with 128 KiB the columns of a batch are, which takes a third of the processor time."""

ARENAS_AT_MOST = 2
"""Arenas of the C library: each keeps what its threads have freed."""

TICKET_SECONDS = 3600
"""How long a Flight ticket is valid: the time between a plan and the start of its last share."""

MAX_TICKET_BYTES = 131_072
"""Longest Flight ticket: it contains the request."""

SQL_BATCH_BYTES = 2 * 1024 * 1024
"""Size of a batch of a SQL result: by default clients of gRPC refuse messages beyond 4 MiB."""

VARINT_BYTES = 10
"""Longest integer of a protobuf message."""

MAX_ENDPOINTS = 256
"""Most shares of a Flight plan: each is planned separately."""

WATCH_SECONDS = 0.5
"""Pause between checks for Flight clients that do not read."""

DRAIN_POLL_SECONDS = 0.05
"""Pause between checks whether the Flight calls have ended, at shutdown."""
