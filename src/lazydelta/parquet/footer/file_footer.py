"""The footer of a Parquet file: read in one request, and validated before pyarrow parses it."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.parquet.footer.footer_validation import validate_footer
from lazydelta.parquet.footer.thrift import ThriftError
from lazydelta.parquet.tuning import (
    FOOTER_READ_BYTES,
    MAX_FOOTER_READ_BYTES,
    THRIFT_LIMIT,
    WHOLE_FILE_BYTES,
)

__all__ = ["THRIFT_LIMIT", "Footer", "footer_range", "parse_footer", "read_footer"]

_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_END_BYTES = 8  # the footer's length and the magic number


class Footer(NamedTuple):
    """A parsed footer."""

    data: bytes
    """The bytes in the file."""
    metadata: pq.FileMetaData
    """As parsed by pyarrow, without invalid statistics."""
    schema: pa.Schema


def footer_range(size: int) -> tuple[int, int]:
    """Return the bytes to read first of a file: its end, or all of a small file."""
    if size <= WHOLE_FILE_BYTES:
        return 0, size
    # Footers grow with the number of row groups, and so with the file.
    return size - min(max(FOOTER_READ_BYTES, size >> 8), MAX_FOOTER_READ_BYTES), size


def read_footer(source: pa.NativeFile) -> Footer:
    """Return the footer of a file.

    Raises:
        ThriftError: It is invalid, or the file is not a Parquet file.
        ArrowException, OSError: pyarrow cannot parse it.
    """
    return parse_footer(_read_bytes(source))


def parse_footer(data: bytes) -> Footer:
    """Return the footer of these bytes, without its length and the magic number; see above."""
    reader = _parse(validate_footer(data))
    return Footer(data, reader.metadata, reader.schema_arrow)


def _read_bytes(source: pa.NativeFile) -> bytes:
    size = source.size()
    tail = source.read_at(min(FOOTER_READ_BYTES, size), max(size - FOOTER_READ_BYTES, 0))
    if len(tail) < _END_BYTES or not tail.endswith((_MAGIC, _ENCRYPTED)):
        raise ThriftError(
            f"it is not a Parquet file: the magic number at the end of its {size} bytes is missing"
        )
    if tail.endswith(_ENCRYPTED):
        raise ThriftError("it is encrypted")
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    needed = length + _END_BYTES
    if needed > size:
        raise ThriftError(f"its footer should have {length} bytes, but the file has {size}")
    if length > THRIFT_LIMIT:
        raise ThriftError(f"its footer has {length} bytes, more than {THRIFT_LIMIT}")
    if needed > len(tail):
        tail = source.read_at(needed - len(tail), size - needed) + tail
    return bytes(tail[-needed:-_END_BYTES])


def _parse(footer: bytes) -> pq.ParquetReader:
    """Return pyarrow's reader of a file that consists of the footer alone."""
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
