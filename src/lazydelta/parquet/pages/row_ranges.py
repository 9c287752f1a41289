"""Row ranges of a row group that may match a predicate, by the statistics of its pages.

Pages of different columns hold different rows. Rows are cut wherever a page of a filtered column
begins, so that each range lies within one page of every such column. The rule is the one of row
groups (`parquet.row_group_filter`): what is unknown is kept.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lazydelta._identity import ById
from lazydelta.expressions.nodes import Stat
from lazydelta.parquet.row_group_filter import RangeStatistics, may_match

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from lazydelta.expressions import Predicate
    from lazydelta.parquet.pages.page_headers import PageStatistics
    from lazydelta.parquet.pages.page_index import PageMap

    PagesOf = Callable[[int], PageMap | None]

__all__ = ["filter_leaves", "matching_row_ranges"]

_FORMATS = {"BOOLEAN": "?", "INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def matching_row_ranges(
    metadata: pq.FileMetaData,
    row_group: int,
    rule: Predicate,
    leaves: Mapping[tuple[str, ...], str],
    partition: Mapping[str, pa.Scalar],
    *,
    pages_of: PagesOf,
) -> list[tuple[int, int]]:
    """Return the row ranges for which the rule is not FALSE, from the row group's first row on.

    Args:
        metadata: The footer.
        row_group: Its index.
        rule: Over statistics of logical paths.
        leaves: Path in the file by logical path; a missing path is null in all rows.
        partition: Partition values of the file.
        pages_of: Returns the pages of a leaf column; None if unknown.
    """
    num_rows = metadata.row_group(row_group).num_rows
    ranges = _PageRanges(metadata, [num_rows], leaves, partition)
    for name in filter_leaves(rule, leaves):
        leaf = ranges.indices.get(name, -1)
        pages = None if leaf < 0 else pages_of(leaf)
        # pyarrow drops bounds of a chunk whose order is undefined; those of its pages are as bad.
        if pages is not None and _has_bounds(metadata.row_group(row_group).column(leaf)):
            ranges.pages[leaf] = pages
    if not ranges.pages:
        return [(0, num_rows)]
    edges = sorted({row for pages in ranges.pages.values() for row in pages.rows})
    ranges.split_at(edges)
    kept = may_match(rule, ranges)
    return _merged([one for one, is_kept in zip(pairwise(edges), kept, strict=True) if is_kept])


def filter_leaves(rule: Predicate, leaves: Mapping[tuple[str, ...], str]) -> set[str]:
    """Return the paths in the file of the columns that a rule uses."""
    return {leaves[path] for path in _paths(ById(rule)) if path in leaves}


@lru_cache(maxsize=64)
def _paths(rule: ById[Predicate]) -> frozenset[tuple[str, ...]]:
    return frozenset(node.path for node in rule.value.walk() if isinstance(node, Stat))


class _PageRanges(RangeStatistics):
    """Row ranges that lie within one page of each column of `pages`."""

    pages: dict[int, PageMap]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.pages = {}
        self._edges: Sequence[int] = (0,)

    def split_at(self, edges: Sequence[int]) -> None:
        """Set the first rows of the ranges, and the end of the last one."""
        self._edges = edges
        self.num_rows = [end - start for start, end in pairwise(edges)]

    def column_statistics(self, leaf: int) -> Sequence[Any]:
        pages = self.pages.get(leaf)
        if pages is None:
            return [None] * len(self.num_rows)
        physical = self.columns.column(leaf).physical_type
        page_rows = [end - start for start, end in pairwise(pages.rows)]
        statistics = []
        for start, count in zip(self._edges, self.num_rows, strict=False):
            index = bisect_right(pages.rows, start) - 1
            statistics.append(
                _range_statistics(pages.statistics[index], physical, page_rows[index], count)
            )
        return statistics


@dataclass(frozen=True, slots=True)
class _RangeStatistics:
    """Statistics of a range, with the attributes of pyarrow's column chunk statistics."""

    has_min_max: bool
    has_null_count: bool
    null_count: int
    min_raw: Any
    max_raw: Any


def _range_statistics(
    page: PageStatistics, physical: str, page_rows: int, rows: int
) -> _RangeStatistics:
    """Return the statistics of some rows of a page."""
    lower, upper = _decoded(page.min_value, physical), _decoded(page.max_value, physical)
    # The null count of a part is known only if none of the page is null, or all are.
    has_count = page.null_count in (0, page_rows)
    return _RangeStatistics(
        has_min_max=lower is not None and upper is not None,
        has_null_count=has_count,
        null_count=rows if has_count and page.null_count else 0,
        min_raw=lower,
        max_raw=upper,
    )


def _decoded(bound: bytes | None, physical: str) -> Any:
    """Return a bound as pyarrow's `min_raw` has it; None if it is invalid."""
    if bound is None or physical in _BYTES:
        return bound
    layout = _FORMATS.get(physical)
    if layout is None or len(bound) != struct.calcsize(layout):
        return None
    return struct.unpack(layout, bound)[0]


def _has_bounds(chunk: Any) -> bool:
    return chunk.statistics is not None and chunk.statistics.has_min_max


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same rows in as few ranges as possible."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]  # noqa: PLW2901 - the merged range begins there
        merged.append((start, end))
    return merged
