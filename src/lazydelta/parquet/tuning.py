"""Tuning numbers of the Parquet room. What a user may set is in `Config` and `ReadOptions`."""

from __future__ import annotations

__all__: list[str] = []

# --- reading ------------------------------------------------------------------------------------

LOCAL_BUFFER_BYTES = 1 << 20
"""Read buffer of pyarrow for a local column chunk: small reads hit the page cache."""
REMOTE_FETCH_BYTES = 16 << 20
"""Bytes of a remote file that are fetched together and held in memory; at least a row group."""
BATCH_BYTES = 32 << 20
"""Target size of a decoded batch, estimated from the footer."""
MIN_BATCH_ROWS = 1024
"""Rows of a batch however large they are: each batch has a fixed cost."""
MIN_SKIP_ROWS = 1024
"""Rows of a gap from which the decoder skips it: a shorter one is decoded faster."""
BITMAP_ROWS = 1 << 27
"""Rows up to which the decoder gets a selection bitmap (16 MB): a footer may claim any number."""
BITMAP_CHUNK_ROWS = 1 << 20
"""Rows of a selection evaluated at a time, which takes nine bytes a row."""
PAGE_FILTER_BYTES = 1 << 20
"""Size of the predicate's columns in a row group from which page statistics are read."""
PAGE_FILTER_FOOTER_RATIO = 64
"""The page filter parses the footer again, in Python: column bytes per footer byte to be worth it.
"""

# --- decode limits ------------------------------------------------------------------------------

EXPECTED_RATIO = 64
"""Decoded bytes per byte in the file that real columns reach."""
EXPECTED_DICTIONARY_BYTES = 2 << 20
"""Writers stop dictionary encoding at one megabyte, some at two."""
LONG_STRING_BYTES = 1024
"""Average from which strings stay dictionary-encoded: 100,000 such rows take 100 MB decoded."""
PAGE_HEADER_BYTES = 4096
"""First read of a page header: most take dozens of bytes, more only with long statistics."""
MAX_PAGE_HEADER_BYTES = 16 << 20
"""Page headers above this size are treated as damaged."""

# --- footers ------------------------------------------------------------------------------------

FOOTER_READ_BYTES = 64 << 10
"""First read at the end of a file: a second request to a remote store costs more than the bytes."""
MAX_FOOTER_READ_BYTES = 256 << 10
"""The same of a large remote file."""
WHOLE_FILE_BYTES = 1 << 20
"""Remote files up to this size are read in one request: the bytes cost less than a round trip."""
WHOLE_READ_BYTES = 8 << 20
"""As `WHOLE_FILE_BYTES`, for a file of which all columns are read."""
THRIFT_LIMIT = 256 << 20
"""Maximum bytes of a footer and of its strings, and maximum values of its lists."""
MAX_SCHEMA_DEPTH = 100
"""Levels of nested groups; pyarrow cannot read more, or overflows its stack on them."""
MAX_THRIFT_DEPTH = 16
"""Levels of nested thrift structs and lists; Parquet's own need fewer."""
TEMPLATE_MISSES = 16
"""Structs without a template after which one is compiled: it costs as much as parsing thirty."""
MAX_TEMPLATES = 8
"""Templates of one kind of struct: each is tried in turn."""

# --- writing ------------------------------------------------------------------------------------

DICTIONARY_SAMPLES = 16
"""Places of a table that are sampled for distinct values."""
DICTIONARY_SAMPLE_ROWS = 1024
"""Rows of each sample."""
DICTIONARY_MIN_ROWS = 4096
"""Rows below which all columns are dictionary-encoded without sampling."""
STATS_STRING_CHARACTERS = 32
"""Length that string bounds in `stats` are truncated to."""
FOOTER_STRING_BYTES = 1000
"""Strings up to this size have bounds in the footer; Arrow omits bounds above 4096 bytes."""
