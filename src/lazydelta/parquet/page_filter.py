"""Page filter of a local data file: which rows may match, by the statistics of their pages.

Only for columns that are neither lists nor parts of structs. Where the footer or the page index
cannot be read or contradicts itself, all rows are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.parquet.page_headers import BadPageError
from lazydelta.parquet.page_index import PageMap, map_pages
from lazydelta.parquet.row_group_filter import leaf_columns
from lazydelta.parquet.row_ranges import matching_row_ranges
from lazydelta.parquet.thrift import Reader, ThriftError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.parquet.footer import Footer

__all__ = ["PageFilter"]

_BYTES_PER_FOOTER_BYTE = 64
"""The footer is parsed again in Python: the columns of a row group must be larger by this factor.
"""
_ROW_GROUPS, _COLUMNS = 4, 1  # field numbers in parquet.thrift


class PageFilter:
    """Page filter of a file.

    Args:
        footer: Of the file.
        source: Its bytes.
    """

    def __init__(self, footer: Footer, source: pa.NativeFile) -> None:
        self._data = footer.data
        self._metadata = footer.metadata
        self._columns = leaf_columns(footer.metadata)
        self._source = source
        self._size: int = source.size()
        self._row_groups: Sequence[dict[int, Any]] | None = None

    def is_cheap(self, column_bytes: int) -> bool:
        """Whether reading page statistics costs little beside decoding that many bytes."""
        return bool(column_bytes >= _BYTES_PER_FOOTER_BYTE * len(self._data))

    def spans(
        self,
        row_group: int,
        rule: Predicate,
        leaves: Mapping[tuple[str, ...], str],
        partition: Mapping[str, pa.Scalar],
    ) -> list[tuple[int, int]]:
        """Return ranges of rows that may match, counted from the row group's first row.

        Args:
            row_group: Which one.
            rule: Over statistics of logical paths.
            leaves: Path in the file by logical path.
            partition: Values of the file's partition columns.
        """
        return matching_row_ranges(
            self._metadata, row_group, rule, leaves, partition,
            map_of=lambda place: self._map_of(row_group, place),
        )  # fmt: skip

    def _map_of(self, row_group: int, place: int) -> PageMap | None:
        column = self._columns.column(place)
        if column.max_repetition_level or "." in column.path:
            return None
        if self._row_groups is None:
            self._row_groups = _row_groups_of(self._data)
        try:
            chunk = self._row_groups[row_group][_COLUMNS][place]
        except (LookupError, TypeError):
            return None
        return map_pages(chunk, self._metadata.row_group(row_group).num_rows, self._read_at)

    def _read_at(self, position: int, size: int) -> bytes:
        """Return bytes of the file, fewer at its end; a damaged footer may request any range."""
        size = min(size, self._size - position)
        if position < 0 or size < 0:
            raise BadPageError("it is not in the file")
        found: bytes = self._source.read_at(size, position)
        return found


def _row_groups_of(footer: bytes) -> Sequence[dict[int, Any]]:
    """Return the row groups of a footer by field number; none where it cannot be parsed."""
    try:
        found = Reader(footer).struct().get(_ROW_GROUPS)
    except (ThriftError, IndexError):
        return ()
    return found if isinstance(found, list) else ()
