"""A Parquet file that is put together of pieces, so that several threads can encode it.

Pieces that stand side by side are a row group; row groups follow each other as they are appended.
The page index of all of them stands before the footer. The bytes are those that a single writer
would have written, so whoever reads the file cannot tell. Who encodes what, and when, is decided
elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from lazydelta.parquet.pieces import MAGIC, encoded_file, fields_of, footer_of
from lazydelta.parquet.thrift import I32, I64, LIST, STRUCT, Reader, encoded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lazydelta.parquet.pieces import Chunk, Piece

__all__ = ["JoinedFile", "write_gently"]

_AT_ONCE = 1 << 20

_NUM_ROWS, _ROW_GROUPS = 3, 4  # fields are named by their numbers in parquet.thrift


def write_gently(sink: pa.NativeFile, data: pa.Buffer) -> int:
    """Write much a megabyte at a time, and return how much it was.

    For more at once Linux looks for large pages for its cache, which took up to eight times as
    long.
    """
    view = memoryview(data)
    for at in range(0, len(view), _AT_ONCE):
        sink.write(view[at : at + _AT_ONCE])
    return len(view)


class JoinedFile:
    """A Parquet file that is being put together.

    Args:
        sink: Where the bytes go, from the first to the last.
        schema: All columns.
        options: As `pq.ParquetWriter` takes them.
    """

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self._sink = sink
        self._head, self._rest = _around_row_groups(footer_of(encoded_file(schema, options)))
        self._groups: list[_RowGroup] = []
        sink.write(MAGIC)

    def append(self, pieces: Sequence[Piece]) -> None:
        """Append a row group of pieces that have all columns between them, in their order."""
        rows = {piece.rows for piece in pieces}
        if len(rows) != 1:
            raise ValueError(f"a row group is made of pieces of {sorted(rows)} rows")
        chunks: list[_Placed] = []
        for piece in pieces:
            by = self._sink.tell() - piece.start
            chunks += [_Placed.of(chunk, by) for chunk in piece.chunks]
            write_gently(self._sink, piece.pages)
        inflated = sum(piece.inflated for piece in pieces)
        self._groups.append(_RowGroup(rows.pop(), inflated, chunks))

    def close(self) -> bytes:
        """Write page index and footer; return the latter as a Parquet file of its own."""
        chunks = [chunk for group in self._groups for chunk in group.chunks]
        index = [chunk.column_index or b"" for chunk in chunks]
        index += [chunk.offset_index or b"" for chunk in chunks]
        starts = list(accumulate(map(len, index), initial=self._sink.tell()))
        self._sink.write(b"".join(index))
        for at, chunk in enumerate(chunks):
            chunk.column_index_at, chunk.offset_index_at = starts[at], starts[len(chunks) + at]
        footer = self._footer()
        tail = footer + len(footer).to_bytes(4, "little") + MAGIC
        self._sink.write(tail)
        return MAGIC + tail

    def _footer(self) -> bytes:
        rows = sum(group.rows for group in self._groups)
        groups = [group.encoded() for group in self._groups]
        fields = [(_NUM_ROWS, I64, rows), (_ROW_GROUPS, LIST, (STRUCT, groups))]
        return self._head + encoded(fields, after=_NUM_ROWS - 1, is_whole=False) + self._rest


@dataclass(slots=True)
class _Placed:
    """A column chunk whose pages are in their place, and whose page index will get one."""

    head: bytes
    start: int
    compressed: int
    column_index: bytes | None
    offset_index: bytes | None
    column_index_at: int = 0
    offset_index_at: int = 0

    @classmethod
    def of(cls, chunk: Chunk, by: int) -> _Placed:
        start = chunk.start + by if chunk.start else 0
        index = None if chunk.offset_index is None else chunk.offset_index.moved(by)
        return cls(chunk.head.moved(by), start, chunk.compressed, chunk.column_index, index)

    def encoded(self) -> bytes:
        """Return its struct in the footer."""
        fields = []
        if self.offset_index is not None:
            fields += [(4, I64, self.offset_index_at), (5, I32, len(self.offset_index))]
        if self.column_index is not None:
            fields += [(6, I64, self.column_index_at), (7, I32, len(self.column_index))]
        return self.head + encoded(fields, after=3)


@dataclass(frozen=True, slots=True)
class _RowGroup:
    rows: int
    inflated: int
    chunks: list[_Placed]

    def encoded(self) -> bytes:
        """Return its struct in the footer."""
        fields = [
            (1, LIST, (STRUCT, [chunk.encoded() for chunk in self.chunks])),
            (2, I64, self.inflated),
            (3, I64, self.rows),
            (5, I64, self.chunks[0].start),
            (6, I64, sum(chunk.compressed for chunk in self.chunks)),
        ]
        return encoded(fields)


def _around_row_groups(footer: bytes) -> tuple[bytes, bytes]:
    """Return what a footer has before the number of rows, and after the row groups."""
    reader = Reader(footer)
    ends: dict[int, int] = {}
    for number, kind in fields_of(reader):
        reader.skip(kind)
        ends[number] = reader.at
    return footer[: ends[_NUM_ROWS - 1]], footer[ends[_ROW_GROUPS] :]
