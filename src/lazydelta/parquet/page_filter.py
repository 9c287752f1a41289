"""The pages of a local data file: which rows may match, and a file of only the pages wanted.

Looks at pages only where it pays, and only of columns that are neither lists nor structs. What
cannot be told, or does not add up, is left to the decoder: None, and it reads the row group.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.parquet.excerpt import Excerpt, RawFooter, Wanted, take_excerpt
from lazydelta.parquet.page_headers import BadPageError
from lazydelta.parquet.page_index import PageMap, map_pages
from lazydelta.parquet.row_group_filter import leaf_columns
from lazydelta.parquet.row_ranges import matching_row_ranges
from lazydelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.expr import Predicate
    from lazydelta.parquet.footer import Footer

__all__ = ["PageFilter"]

_BYTES_PER_FOOTER_BYTE = 64
"""A footer is read again in Python: what is read of its row group should be larger by that."""


class PageFilter:
    """Looks at the pages of a file.

    Args:
        footer: What it says of itself.
        source: Its bytes.
    """

    def __init__(self, footer: Footer, source: pa.NativeFile) -> None:
        self._data = footer.data
        self._metadata = footer.metadata
        self._columns = leaf_columns(footer.metadata)
        self._source = source
        self._size: int = source.size()
        self._footer: RawFooter | None = None
        self._is_readable = True
        self._maps: dict[tuple[int, int], PageMap | None] = {}

    def is_cheap(self, row_group_bytes: int) -> bool:
        """Whether to look at pages costs little beside decoding that many bytes."""
        return bool(row_group_bytes >= _BYTES_PER_FOOTER_BYTE * len(self._data))

    def excerpts(
        self, row_group: int, places: Sequence[int], rows: tuple[int, int], at_once: int
    ) -> Iterator[Excerpt] | None:
        """Return files of the pages that hold some rows; None if there is no way to make them.

        Args:
            row_group: Which one.
            places: The leaf columns that are wanted.
            rows: First row and end, counted from the row group's first.
            at_once: How many rows all columns should have further after each file.
        """
        footer = self._raw()
        found = {at: self._map_of(row_group, at, statistics=False) for at in places}
        maps = {at: pages for at, pages in found.items() if pages is not None}
        if footer is None or len(maps) < len(places):
            return None
        takings = (
            take_excerpt(footer, row_group, wanted, self._read_at)
            for wanted in _takings(maps, rows, at_once)
        )
        try:
            return chain([next(takings)], takings)
        except (BadPageError, LookupError, TypeError, OSError, pa.ArrowException):
            return None

    def spans(
        self,
        row_group: int,
        rule: Predicate,
        leaves: Mapping[tuple[str, ...], str],
        partition: Mapping[str, pa.Scalar],
    ) -> list[tuple[int, int]]:
        """Return runs of rows that may match, counted from the row group's first.

        Args:
            row_group: Which one.
            rule: Over statistics of logical paths.
            leaves: Path in the file by logical path.
            partition: Values of the file's partition columns.
        """
        return matching_row_ranges(
            self._metadata, row_group, rule, leaves, partition,
            map_of=lambda place: self._map_of(row_group, place, statistics=True),
        )  # fmt: skip

    def has_pages(self, places: Sequence[int]) -> bool:
        """Whether pages of some leaf columns can be told apart: they are not parts of others."""
        columns = [self._columns.column(place) for place in places]
        return bool(columns) and all(
            not column.max_repetition_level and "." not in column.path for column in columns
        )

    def _map_of(self, row_group: int, place: int, *, statistics: bool) -> PageMap | None:
        footer = self._raw()
        if footer is None or not self.has_pages([place]):
            return None
        key = row_group, place
        if key not in self._maps or (statistics and self._maps[key] is not None):
            rows = self._metadata.row_group(row_group).num_rows
            chunk = footer.chunk(row_group, place)
            self._maps[key] = map_pages(chunk, rows, self._read_at, statistics=statistics)
        return self._maps[key]

    def _raw(self) -> RawFooter | None:
        """Return the footer as it is in the file; None where it is not the usual one."""
        if self._footer is None and self._is_readable:
            try:
                self._footer = RawFooter(self._data)
            except ThriftError:
                self._is_readable = False
        return self._footer

    def _read_at(self, position: int, size: int) -> bytes:
        """Return some bytes of the file; fewer at its end, whatever a damaged footer asks for."""
        size = min(size, self._size - position)
        if position < 0 or size < 0:
            raise BadPageError("it is not in the file")
        found: bytes = self._source.read_at(size, position)
        return found


def _takings(
    maps: Mapping[int, PageMap], rows: tuple[int, int], at_once: int
) -> Iterator[dict[int, Wanted]]:
    """Yield the pages to take at a time, so that all columns get on at the same pace."""
    position, end = rows
    taken = {place: pages.holding(position, end)[0] for place, pages in maps.items()}
    while position < end:
        position = min(position + at_once, end)
        wanted = {}
        for place, pages in maps.items():
            after = pages.holding(position - 1, position)[1]
            if after > taken[place]:
                wanted[place] = Wanted(pages, taken[place], after)
                taken[place] = after
        if wanted:
            yield wanted
