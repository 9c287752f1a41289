"""Page filter of a local data file: which rows may match, by the statistics of their pages.

Only for columns that are neither lists nor parts of structs. Where the footer or the page index
cannot be read or contradicts itself, all rows are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.parquet import tuning
from lazydelta.parquet.footer.leaf_index import leaf_columns
from lazydelta.parquet.footer.thrift import Reader, ThriftError
from lazydelta.parquet.pages.page_headers import BadPageError
from lazydelta.parquet.pages.page_index import PageMap, map_pages
from lazydelta.parquet.pages.row_ranges import matching_row_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.parquet.footer.file_footer import Footer

__all__ = ["PageFilter"]

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
        return bool(column_bytes >= tuning.PAGE_FILTER_FOOTER_RATIO * len(self._data))

    def row_ranges(
        self,
        row_group: int,
        rule: Predicate,
        leaves: Mapping[tuple[str, ...], str],
        partition: Mapping[str, pa.Scalar],
    ) -> list[tuple[int, int]]:
        """Return ranges of rows that may match, counted from the row group's first row.

        Args:
            row_group: Its index.
            rule: Over statistics of logical paths.
            leaves: Path in the file by logical path.
            partition: Partition values of the file.
        """
        return matching_row_ranges(
            self._metadata, row_group, rule, leaves, partition,
            pages_of=lambda leaf: self._pages_of(row_group, leaf),
        )  # fmt: skip

    def _pages_of(self, row_group: int, leaf: int) -> PageMap | None:
        column = self._columns.column(leaf)
        if column.max_repetition_level or "." in column.path:
            return None
        if self._row_groups is None:
            self._row_groups = _row_groups_of(self._data)
        try:
            chunk = self._row_groups[row_group][_COLUMNS][leaf]
        except (LookupError, TypeError):
            return None
        return map_pages(chunk, self._metadata.row_group(row_group).num_rows, self._read_at)

    def _read_at(self, position: int, size: int) -> bytes:
        """Return bytes of the file, fewer at its end; a damaged footer may request any range."""
        size = min(size, self._size - position)
        if position < 0 or size < 0:
            raise BadPageError("a page index is outside of the file")
        data: bytes = self._source.read_at(size, position)
        return data


def _row_groups_of(footer: bytes) -> Sequence[dict[int, Any]]:
    """Return the row groups of a footer by field number; none where it cannot be parsed."""
    try:
        groups = Reader(footer).struct().get(_ROW_GROUPS)
    except (ThriftError, IndexError):
        return ()
    return groups if isinstance(groups, list) else ()
