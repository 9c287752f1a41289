"""Pieces of Parquet files: some columns of one row group, encoded by themselves.

The usual writer encodes a piece as a file of its own, which is then taken apart: pages, which can
stand anywhere, and what footer and page index say of them, which names the place where they are.
Knows which numbers of these structs are places; the rest of them, and the pages, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lazydelta.parquet.thrift import Reader, encoded_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Chunk", "Movable", "Piece", "encoded_file", "fields_of", "footer_of"]

MAGIC = b"PAR1"
_TAIL = 4 + len(MAGIC)

# Fields of the structs of Parquet's format, by their numbers.
_ROW_GROUPS = 4
_COLUMNS, _INFLATED, _ROWS = 1, 2, 3
_FILE_OFFSET, _METADATA = 2, 3
_OFFSET_INDEX, _OFFSET_INDEX_SIZE, _COLUMN_INDEX, _COLUMN_INDEX_SIZE = 4, 5, 6, 7
_COMPRESSED = 7
_DATA, _INDEX, _DICTIONARY = 9, 10, 11
"""FileStores of the first data page, of an index page, and of the dictionary."""
_BLOOM_FILTER = 14
_LOCATIONS, _LOCATION_OFFSET = 1, 1


@dataclass(frozen=True, slots=True)
class Movable:
    """A struct, or the first fields of one, as bytes that are cut where they name a place."""

    parts: list[bytes]
    """What stands before, between and after the places."""
    places: list[int]

    def moved(self, by: int) -> bytes:
        """Return the bytes as they are where all places are so much further on; 0 is no place."""
        found = [self.parts[0]]
        for place, part in zip(self.places, self.parts[1:], strict=True):
            found += (encoded_number(place + by if place else 0), part)
        return b"".join(found)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of one row group."""

    head: Movable
    """Its struct in the footer, up to the fields that say where the page index is."""
    start: int
    """Where its pages begin; 0 if it has none."""
    compressed: int
    """Bytes of its pages."""
    column_index: bytes | None
    offset_index: Movable | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Some columns of one row group, encoded; may stand in any number of row groups."""

    rows: int
    inflated: int
    """Bytes of the pages, once decompressed."""
    pages: pa.Buffer
    start: int
    """Where the pages were when their places were written down."""
    chunks: list[Chunk]

    @classmethod
    def encoded(cls, columns: pa.Table, options: Mapping[str, Any]) -> Self:
        """Encode all rows as one row group.

        Args:
            columns: Some of the columns of a file.
            options: As `pq.ParquetWriter` takes them.
        """
        return cls.of(encoded_file(columns.schema, options, columns))

    @classmethod
    def of(cls, file: pa.Buffer) -> Self:
        """Take a Parquet file of one row group apart.

        Raises:
            ValueError: It has another number of row groups, or what is not among the pages:
                encryption, Bloom filters.
        """
        reader = Reader(footer_of(file))
        count, rows, inflated = 0, 0, 0
        chunks: list[Chunk] = []
        for number, kind in fields_of(reader):
            if number != _ROW_GROUPS:
                reader.skip(kind)
                continue
            count = reader.list_size()[0]
            if count == 1:
                rows, inflated, chunks = _row_group(reader, file)
        if count != 1:
            raise ValueError(f"a piece of a Parquet file is one row group, not {count}")
        pages = file.slice(len(MAGIC), sum(chunk.compressed for chunk in chunks))
        return cls(rows, inflated, pages, len(MAGIC), chunks)


def encoded_file(
    schema: pa.Schema, options: Mapping[str, Any], rows: pa.Table | None = None
) -> pa.Buffer:
    """Return a Parquet file of one row group, or of none."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **options) as writer:
        if rows is not None:
            writer.write_table(rows, rows.num_rows or None)
    return sink.getvalue()


def footer_of(file: pa.Buffer) -> bytes:
    """Return the struct that a Parquet file ends with."""
    tail = file.slice(file.size - _TAIL).to_pybytes()
    size = int.from_bytes(tail[:4], "little")
    return bytes(file.slice(file.size - _TAIL - size, size).to_pybytes())


def fields_of(reader: Reader) -> Iterator[tuple[int, int]]:
    """Yield number and type of each field of a struct; its value is to be read or skipped."""
    number, kind = reader.field(0)
    while kind:
        yield number, kind
        number, kind = reader.field(number)


class _Cutter:
    """Cuts what a reader walks through where it names a place."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._from = reader.at
        self._found = Movable([], [])

    def place(self) -> int:
        """Read a place."""
        self._found.parts.append(self._reader.data[self._from : self._reader.at])
        place = self._reader.number()
        self._found.places.append(place)
        self._from = self._reader.at
        return place

    def done(self, end: int) -> Movable:
        """Return what was walked through, up to a position."""
        self._found.parts.append(self._reader.data[self._from : end])
        return self._found


def _row_group(reader: Reader, file: pa.Buffer) -> tuple[int, int, list[Chunk]]:
    """Return rows, decompressed bytes and columns of a row group."""
    numbers = {_ROWS: 0, _INFLATED: 0}
    chunks: list[Chunk] = []
    for number, kind in fields_of(reader):
        if number == _COLUMNS:
            chunks = [_chunk(reader, file) for _ in range(reader.list_size()[0])]
        elif number in numbers:
            numbers[number] = reader.number()
        else:
            reader.skip(kind)
    return numbers[_ROWS], numbers[_INFLATED], chunks


def _chunk(reader: Reader, file: pa.Buffer) -> Chunk:
    cutter = _Cutter(reader)
    start, compressed, end = 0, 0, reader.at
    index: dict[int, int] = {}
    for number, kind in fields_of(reader):
        if number == _METADATA:
            start, compressed = _metadata(reader, cutter)
        elif number == _FILE_OFFSET:
            cutter.place()
        elif _OFFSET_INDEX <= number <= _COLUMN_INDEX_SIZE:
            index[number] = reader.number()
        elif number > _COLUMN_INDEX_SIZE:
            raise ValueError("an encrypted column cannot be moved")
        else:
            reader.skip(kind)
        if number <= _METADATA:
            end = reader.at
    return Chunk(
        cutter.done(end),
        start,
        compressed,
        _part(file, index, _COLUMN_INDEX),
        None if (found := _part(file, index, _OFFSET_INDEX)) is None else _offset_index(found),
    )


def _part(file: pa.Buffer, index: Mapping[int, int], field: int) -> bytes | None:
    if field not in index:
        return None
    return bytes(file.slice(index[field], index[field + 1]).to_pybytes())


def _metadata(reader: Reader, cutter: _Cutter) -> tuple[int, int]:
    """Cut out the places of pages; return where these begin, and how many bytes they take."""
    found = {_COMPRESSED: 0}
    for number, kind in fields_of(reader):
        if number in (_DATA, _INDEX, _DICTIONARY):
            found[number] = cutter.place()
        elif number == _COMPRESSED:
            found[number] = reader.number()
        elif number == _BLOOM_FILTER:
            raise ValueError("a column with a Bloom filter cannot be moved")
        else:
            reader.skip(kind)
    return found.get(_DICTIONARY, found[_DATA]), found[_COMPRESSED]


def _offset_index(data: bytes) -> Movable:
    reader = Reader(data)
    cutter = _Cutter(reader)
    for number, kind in fields_of(reader):
        if number != _LOCATIONS:
            reader.skip(kind)
            continue
        for _ in range(reader.list_size()[0]):
            for inner, inner_kind in fields_of(reader):
                if inner == _LOCATION_OFFSET:
                    cutter.place()
                else:
                    reader.skip(inner_kind)
    return cutter.done(len(data))
