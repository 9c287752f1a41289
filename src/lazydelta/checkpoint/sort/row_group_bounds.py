"""Lower bounds of a checkpoint's row groups in the sort order, from footers alone.

A checkpoint of ours is sorted, and mostly stays so up to the next version. Footers show that: the
minimum values of a row group's columns are a lower bound of its rows. A missing minimum counts as
null, which sorts first. So a bound may be too low, never too high.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.checkpoint.sort.sort_keys import NULL_KEY, comparable_values, sort_keys
from lazydelta.parquet import ColumnBounds
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from lazydelta.checkpoint.checkpoint_schema import CheckpointSchema
    from lazydelta.checkpoint.sort.sort_keys import ComparableRow
    from lazydelta.schema import DataType

__all__ = ["LowerBound", "lower_bounds"]


@dataclass(frozen=True, slots=True, order=True)
class LowerBound:
    """A partition and a sort key within it that some adds do not precede."""

    partition: ComparableRow
    key: int


def lower_bounds(footers: Sequence[pq.FileMetaData], schema: CheckpointSchema) -> list[LowerBound]:
    """Return for each row group of all files a lower bound of it and of all that follow."""
    bounds = [bound for footer in footers for bound in _bounds_of(footer, schema)]
    running: list[LowerBound | None] = []
    for bound in reversed(bounds):
        # A row group without adds has no bound of its own: that of the next one applies.
        running.append(_minimum(bound, running[-1] if running else None))
    lowest = LowerBound((), NULL_KEY)
    return [lowest if bound is None else bound for bound in reversed(running)]


def _bounds_of(footer: pq.FileMetaData, schema: CheckpointSchema) -> list[LowerBound | None]:
    statistics = _FooterMinimums(footer)
    partition_minimums = [
        statistics.minimums(f"add.partitionValues_parsed.{name}", data_type)
        for name, data_type in schema.partitions.items()
    ]
    keys = [NULL_KEY] * footer.num_row_groups
    if schema.sort_columns:
        name = ".".join(("add.stats_parsed.minValues", *schema.sort_columns[0]))
        data_type = schema.type_of(schema.sort_columns[0])
        column = build_array(statistics.minimums(name, data_type), data_type)
        keys = sort_keys([column])[0].tolist()
    columns = [
        comparable_values(build_array(values, data_type))
        for values, data_type in zip(partition_minimums, schema.partitions.values(), strict=True)
    ]
    partitions = zip(*columns, strict=True) if columns else [()] * footer.num_row_groups
    return [
        LowerBound(tuple(partition), key) if statistics.has_adds(group) else None
        for group, (partition, key) in enumerate(zip(partitions, keys, strict=True))
    ]


class _FooterMinimums:
    """Minimum values of leaf columns, one for each row group."""

    def __init__(self, footer: pq.FileMetaData) -> None:
        self._footer = footer
        self._leaf_indices: dict[str, int] = {}
        for index in range(footer.num_columns):
            name = footer.schema.column(index).path
            # Names may contain dots: a path that means two leaves means none.
            self._leaf_indices[name] = -1 if name in self._leaf_indices else index
        self._rows_without_add = self._null_counts("add.path")

    def has_adds(self, group: int) -> bool:
        """Whether a row group may have an add."""
        return self._rows_without_add[group] != self._footer.row_group(group).num_rows

    def minimums(self, name: str, data_type: DataType) -> list[Any]:
        """Return the minimum values; None where an add is null or statistics are missing."""
        index = self._leaf_indices.get(name, -1)
        if index < 0:
            return [None] * self._footer.num_row_groups
        bounds = ColumnBounds(self._footer.schema.column(index), data_type, upper=False)
        return [
            bounds.of(statistics) if nulls is not None and nulls == without_add else None
            for statistics, nulls, without_add in zip(
                self._statistics(index),
                self._null_counts(name),
                self._rows_without_add,
                strict=True,
            )
        ]

    def _null_counts(self, name: str) -> list[int | None]:
        """Return how many rows are null, rows of other actions included."""
        chunks = self._statistics(self._leaf_indices.get(name, -1))
        return [c.null_count if c is not None and c.has_null_count else None for c in chunks]

    def _statistics(self, index: int) -> list[Any]:
        groups = range(self._footer.num_row_groups)
        if index < 0:
            return [None for _ in groups]
        return [self._footer.row_group(group).column(index).statistics for group in groups]


def _minimum(one: LowerBound | None, other: LowerBound | None) -> LowerBound | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
