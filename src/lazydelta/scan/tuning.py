"""Tuning numbers of the scan room. What a user may set is in `Config` and `ReadOptions`."""

from __future__ import annotations

__all__: list[str] = []

# --- reading ------------------------------------------------------------------------------------

REMOTE_FILES = 8
"""Files of a remote store read in parallel, even on few cores: the threads mostly wait."""
REMOTE_SMALL_FILES = 32
"""Maximum number of small files of a remote store that are read in parallel."""
REMOTE_BYTES = 256 << 20
"""Size of the files read in parallel up to which there may be more than `REMOTE_FILES`."""
VECTORS_PER_FETCH = 32
"""Files whose deletion vectors are fetched together."""
MIN_LIMITED_BATCH_ROWS = 1024
"""Rows of a batch however small the limit of a scan is: fewer are not cheaper to decode."""

SMALL_FILE_BYTES = 128 << 10
"""Files up to this size are read in batches: a larger one keeps a thread busy by itself."""
SMALL_FILE_BATCH_BYTES = 1 << 20
"""Bytes of a small-file batch: it is decoded as a whole before its first row is returned."""
SMALL_FILE_BATCH_FILES = 64
"""Files of a small-file batch."""
TEMPLATE_ATTEMPTS = 4
"""Larger files in a row that do not match the template before no further ones are tried."""

LATE_MIN_TRIES = 8
"""Row groups read with late materialization before its success rate is evaluated."""
LATE_MIN_SUCCESS = 0.5
"""Share of row groups in which late materialization must have paid to be continued."""
LATE_MAX_DECODED = 0.5
"""Share of a row group from its first to its last match up to which it has paid."""
LATE_MAX_FILTER_BYTES = 0.5
"""Share of the bytes to read that the predicate's columns may have for it to be tried."""
LATE_MIN_REMOTE_BYTES = 4 << 20
"""Bytes of the other columns of a remote file that take about as long as a round trip."""
LATE_MIN_REMOTE_FILES = 4
"""Files up to which such columns are fetched with the predicate's: with more files in parallel,
bytes cost more than round trips.
"""

# --- rows chosen by position --------------------------------------------------------------------

SELECTED_SKIP_ROWS = 1 << 16
"""Rows between chosen ones from which they are skipped: starting to decode a column anew costs as
much as decoding about this many numbers."""
SELECTED_MIN_SKIPPED = 0.5
"""Share of the rows of a file above which ranges do not pay: all are decoded in one pass."""

# --- resuming -----------------------------------------------------------------------------------

TOKEN_COMPACTIONS = 24
"""Log compactions that a resume token names; a scan of a log with more of them reads the commits.
Each takes up to 40 of its 2,048 characters."""
