"""Which rows of a row group may match a predicate, from what is known of its pages.

Pages of different columns hold different rows, so rows are cut wherever a page of a column begins
that the predicate asks for: of each such run it is known what its pages are like. The rule is the
one that row groups are asked (`parquet.row_group_filter`), and what is unknown is kept here too.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lazydelta.expressions.nodes import Stat
from lazydelta.parquet.row_group_filter import Facts, may_match

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from lazydelta.expressions import Predicate
    from lazydelta.parquet.page_headers import PageStatistics
    from lazydelta.parquet.page_index import PageMap

    MapOf = Callable[[int], PageMap | None]

__all__ = ["leaves_asked_for", "matching_row_ranges"]

_PLAIN = {"BOOLEAN": "?", "INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def matching_row_ranges(
    metadata: pq.FileMetaData,
    row_group: int,
    rule: Predicate,
    leaves: Mapping[tuple[str, ...], str],
    partition: Mapping[str, pa.Scalar],
    *,
    map_of: MapOf,
) -> list[tuple[int, int]]:
    """Return runs of rows for which the rule is not FALSE, counted from the row group's first.

    Args:
        metadata: The footer.
        row_group: Which one.
        rule: Over statistics of logical paths.
        leaves: Path in the file by logical path; a path that is not there is null in all rows.
        partition: Values of the file's partition columns.
        map_of: Gives the pages of a leaf column, if that can be told.
    """
    num_rows = metadata.row_group(row_group).num_rows
    found = _Runs(metadata, [num_rows], leaves, partition)
    for name in leaves_asked_for(rule, leaves):
        place = found.places.get(name, -1)
        pages = None if place < 0 else map_of(place)
        # Only where the decoder trusts the order of the whole column's bounds are its pages' known.
        if pages is not None and _has_bounds(metadata.row_group(row_group).column(place)):
            found.pages[place] = pages
    if not found.pages:
        return [(0, num_rows)]
    edges = sorted({row for pages in found.pages.values() for row in pages.rows})
    found.cut_at(edges)
    kept = may_match(rule, found)
    return _joined([run for run, is_kept in zip(pairwise(edges), kept, strict=True) if is_kept])


def leaves_asked_for(rule: Predicate, leaves: Mapping[tuple[str, ...], str]) -> set[str]:
    """Return the paths in the file of the columns that a rule asks for."""
    paths = {node.path for node in rule.walk() if isinstance(node, Stat)}
    return {leaves[path] for path in paths if path in leaves}


class _Runs(Facts):
    """Runs of rows that are within one page of each column that has a map."""

    pages: dict[int, PageMap]

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self.pages = {}
        self._edges: Sequence[int] = (0,)

    def cut_at(self, edges: Sequence[int]) -> None:
        """Set where the runs begin and where the last one ends."""
        self._edges = edges
        self.rows = [end - start for start, end in pairwise(edges)]

    def known(self, place: int) -> Sequence[Any]:
        pages = self.pages.get(place)
        if pages is None:
            return [None] * len(self.rows)
        physical = self.columns.column(place).physical_type
        counts = [end - start for start, end in pairwise(pages.rows)]
        found = []
        for start, count in zip(self._edges, self.rows, strict=False):
            at = bisect_right(pages.rows, start) - 1
            found.append(_known(pages.statistics[at], physical, counts[at], count))
        return found


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a run's values, as pyarrow tells it of a column chunk."""

    has_min_max: bool
    has_null_count: bool
    null_count: int
    min_raw: Any
    max_raw: Any


def _known(page: PageStatistics, physical: str, page_rows: int, rows: int) -> _Known:
    """Return what is known of some rows of a page."""
    least, most = _plain(page.least, physical), _plain(page.most, physical)
    # Of a part of the page it is known how many are null only if none is, or all are.
    is_told = page.nulls in (0, page_rows)
    return _Known(
        has_min_max=least is not None and most is not None,
        has_null_count=is_told,
        null_count=rows if is_told and page.nulls else 0,
        min_raw=least,
        max_raw=most,
    )


def _plain(bound: bytes | None, physical: str) -> Any:
    """Return a bound as pyarrow gives it raw; None if it is not one."""
    if bound is None or physical in _BYTES:
        return bound
    layout = _PLAIN.get(physical)
    if layout is None or len(bound) != struct.calcsize(layout):
        return None
    return struct.unpack(layout, bound)[0]


def _has_bounds(chunk: Any) -> bool:
    return chunk.statistics is not None and chunk.statistics.has_min_max


def _joined(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same rows in as few runs as there can be."""
    found: list[tuple[int, int]] = []
    for start, end in runs:
        if found and found[-1][1] == start:
            start = found.pop()[0]  # noqa: PLW2901 - the run began there
        found.append((start, end))
    return found
