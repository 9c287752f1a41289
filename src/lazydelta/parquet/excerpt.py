"""Some pages of a row group as a Parquet file of its own, for a decoder that cannot start late.

The pages are copied as they are, under a footer that speaks of them only. Pages of different
columns do not begin at the same rows, so columns whose pages do are a row group of it. All is in
Arrow's own memory: what Python owns could be released by a thread of the decoder's when the
interpreter is gone already.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lazydelta.parquet.footer import parsed_footer
from lazydelta.parquet.page_headers import BadPageError, read_pages
from lazydelta.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, Reader, ThriftError, encoded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from lazydelta.parquet.page_headers import ReadAt
    from lazydelta.parquet.page_index import PageMap

__all__ = ["Excerpt", "RawFooter", "Wanted", "Window", "take_excerpt"]

_MAGIC = b"PAR1"


class _Chunk(NamedTuple):
    """A column chunk as bytes of the footer, and how many bytes its pages decompress to."""

    encoded: bytes
    inflated: int


_NO_CHUNK = _Chunk(encoded([(2, I64, 0)]), 0)
"""In place of a column that is not read."""


class RawFooter:
    """A footer as its bytes: what is before its row groups, these by field number, and the rest.

    Raises:
        ThriftError: Its fields do not come in the usual order, or are damaged.
    """

    def __init__(self, data: bytes) -> None:
        reader, number = Reader(data), 0
        ends: dict[int, int] = {}
        values: dict[int, Any] = {}
        try:
            while number < 4:
                number, kind = reader.field(number)
                values[number] = reader.value(kind, 0)
                ends[number] = reader.at
        except IndexError:
            raise ThriftError("it is cut off") from None
        if list(ends) != [1, 2, 3, 4]:
            raise ThriftError("its fields are in another order")
        self.head = data[: ends[2]]
        self.row_groups: list[dict[int, Any]] = values[4]
        self.rest = data[ends[4] :]

    def chunk(self, row_group: int, place: int) -> dict[int, Any]:
        """Return a column chunk by field number."""
        found: dict[int, Any] = self.row_groups[row_group][1][place]
        return found


class Window(NamedTuple):
    """A row group of an excerpt: the rows that the pages of some columns hold."""

    start: int
    """The first of them, counted from the first of the file's row group."""
    end: int
    places: tuple[int, ...]
    """Which leaf columns."""


class Excerpt(NamedTuple):
    """A Parquet file made of some pages of another."""

    source: pa.NativeFile
    metadata: pq.FileMetaData
    windows: Sequence[Window]
    """Its row groups."""


class Wanted(NamedTuple):
    """Some pages of a column chunk: the first, and the one after the last."""

    pages: PageMap
    first: int
    after: int

    @property
    def rows(self) -> tuple[int, int]:
        """The rows that they hold."""
        return self.pages.rows[self.first], self.pages.rows[self.after]

    @property
    def counts(self) -> list[int]:
        """How many rows each of them should hold."""
        return [
            end - start for start, end in pairwise(self.pages.rows[self.first : self.after + 1])
        ]

    @property
    def bytes(self) -> tuple[int, int]:
        """Where they are in the file."""
        return self.pages.positions[self.first], self.pages.positions[self.after]


def take_excerpt(
    footer: RawFooter, row_group: int, wanted: Mapping[int, Wanted], read_at: ReadAt
) -> Excerpt:
    """Return some pages of some columns as a file.

    Args:
        footer: Of the file.
        row_group: Which one.
        wanted: The pages, by leaf column.
        read_at: Gives some bytes of the file from a position on.

    Raises:
        BadPageError: The header of a page cannot be read, or it holds other rows than thought.
    """
    out = pa.BufferOutputStream()
    out.write(_MAGIC)  # nothing may be at position 0: that means that there is no dictionary
    windows: dict[tuple[int, int], dict[int, _Chunk]] = {}
    for place, some in wanted.items():
        chunk = _copied(footer.chunk(row_group, place), some, out, read_at)
        windows.setdefault(some.rows, {})[place] = chunk
    columns = range(len(footer.row_groups[row_group][1]))
    groups = [
        _encoded_row_group([chunks.get(place, _NO_CHUNK) for place in columns], end - start)
        for (start, end), chunks in windows.items()
    ]
    total = sum(end - start for start, end in windows)
    middle = encoded([(3, I64, total), (4, LIST, (STRUCT, groups))], after=2, is_whole=False)
    return Excerpt(
        pa.BufferReader(out.getvalue()),
        parsed_footer(footer.head + middle + footer.rest),
        [Window(*rows, tuple(chunks)) for rows, chunks in windows.items()],
    )


def _copied(
    chunk: dict[int, Any], wanted: Wanted, out: pa.BufferOutputStream, read_at: ReadAt
) -> _Chunk:
    """Copy the wanted pages of a chunk, and return the chunk that they make."""
    (start, end), (first_row, end_row), details = wanted.bytes, wanted.rows, chunk[3]
    begin = out.tell()
    pages = list(read_pages(read_at, start, end - start))
    if [page.values for page in pages] != wanted.counts:
        raise BadPageError("the index of the pages says that they hold other rows")
    # Once a writer has given its dictionary up it does not come back to it, but it may; a large
    # one takes long to decode.
    is_coded = any(page.is_coded for page in pages)
    dictionary = wanted.pages.dictionary if is_coded else None
    if dictionary is not None:
        out.write(read_at(dictionary[0], dictionary[1] - dictionary[0]))
    data = out.tell()
    out.write(read_at(start, end - start))
    size = out.tell() - begin
    inflated = size * details[6] // max(details[7], 1)
    fields = [
        (1, I32, details[1]),
        (2, LIST, (I32, details[2])),
        (3, LIST, (BINARY, details[3])),
        (4, I32, details[4]),
        (5, I64, end_row - first_row),
        (6, I64, inflated),
        (7, I64, size),
        (9, I64, data),
        *([] if dictionary is None else [(11, I64, begin)]),
    ]
    return _Chunk(encoded([(2, I64, 0), (3, STRUCT, encoded(fields))]), inflated)


def _encoded_row_group(chunks: Sequence[_Chunk], rows: int) -> bytes:
    size = sum(chunk.inflated for chunk in chunks)
    columns = [chunk.encoded for chunk in chunks]
    return encoded([(1, LIST, (STRUCT, columns)), (2, I64, size), (3, I64, rows)])
