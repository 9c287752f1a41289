"""The end of a Parquet file: its footer, read in one go and made safe to ask pyarrow about."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.parquet.footer_validation import validate_footer
from lazydelta.parquet.thrift import ThriftError

__all__ = ["THRIFT_LIMIT", "Footer", "read_footer"]

THRIFT_LIMIT = 256 << 20
"""Bytes that a footer may have, and so a text of it; and values that a list may."""

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_END_BYTES = 8  # the footer's length and the magic number
_GUESS = 64 << 10
"""Few footers are longer, and of a remote file a second request is dearer than these bytes."""


class Footer(NamedTuple):
    """What a file says of itself."""

    data: bytes
    """As it stands in the file."""
    metadata: pq.FileMetaData
    """As pyarrow has it, without what makes no sense."""
    schema: pa.Schema


def read_footer(source: pa.NativeFile) -> Footer:
    """Return the footer of a file.

    Raises:
        ThriftError: It makes no sense, or it is no Parquet file.
        ArrowException, OSError: pyarrow cannot make anything of it.
    """
    data = _footer_of(source)
    reader = _opened(validate_footer(data))
    return Footer(data, reader.metadata, reader.schema_arrow)


def _footer_of(source: pa.NativeFile) -> bytes:
    size = source.size()
    tail = source.read_at(min(_GUESS, size), max(size - _GUESS, 0))
    if len(tail) < _END_BYTES or not tail.endswith((_MAGIC, _ENCRYPTED)):
        raise ThriftError(f"its {size} bytes do not end as a Parquet file")
    if tail.endswith(_ENCRYPTED):
        raise ThriftError("it is encrypted")
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    needed = length + _END_BYTES
    if needed > size:
        raise ThriftError(f"its footer should have {length} bytes, the file has {size}")
    if length > THRIFT_LIMIT:
        raise ThriftError(f"its footer has {length} bytes, more than {THRIFT_LIMIT}")
    if needed > len(tail):
        tail = source.read_at(needed - len(tail), size - needed) + tail
    return bytes(tail[-needed:-_END_BYTES])


def _opened(footer: bytes) -> pq.ParquetReader:
    """Return what pyarrow makes of a footer, as if there were nothing else in the file."""
    length = len(footer).to_bytes(4, "little")
    # Not `ParquetFile`, which takes no pool: docs/adr/0020 has what the default one costs.
    reader = pq.ParquetReader(pa.system_memory_pool())
    reader.open(
        pa.BufferReader(b"".join((_MAGIC, footer, length, _MAGIC))),
        coerce_int96_timestamp_unit="us",  # nanoseconds end in the year 2262
        thrift_string_size_limit=THRIFT_LIMIT,
        thrift_container_size_limit=THRIFT_LIMIT,
    )
    return reader
