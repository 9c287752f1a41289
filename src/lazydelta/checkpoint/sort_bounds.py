"""What the row groups of a checkpoint do not come before, from its footers alone.

A checkpoint of ours lies in order, and mostly so does one of the version after it. Footers show
that: the least values of a row group's columns are a lower bound of its rows. What a footer does
not say counts as null, which nothing comes before; so a bound may be too low, never too high.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.checkpoint.sort_keys import LEAST, plain, sort_numbers
from lazydelta.parquet import ColumnBounds
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.checkpoint.sort_keys import PlainRow
    from lazydelta.schema import DataType

__all__ = ["LowerBound", "lower_bounds"]


@dataclass(frozen=True, slots=True, order=True)
class LowerBound:
    """What some adds do not come before: partition values, and a number within the partition."""

    partition: PlainRow
    number: int


def lower_bounds(footers: Sequence[pq.FileMetaData], shape: CheckpointShape) -> list[LowerBound]:
    """Return for each row group of all files a bound of it and of all that come after it."""
    bounds = [bound for footer in footers for bound in _of_groups(footer, shape)]
    found: list[LowerBound | None] = []
    for bound in reversed(bounds):
        # A row group without adds says nothing: it is as good as the one after it.
        found.append(_least(bound, found[-1] if found else None))
    unread = LowerBound((), LEAST)
    return [unread if bound is None else bound for bound in reversed(found)]


def _of_groups(footer: pq.FileMetaData, shape: CheckpointShape) -> list[LowerBound | None]:
    leaves = _Leaves(footer)
    partitions = [
        leaves.least(f"add.partitionValues_parsed.{name}", kind)
        for name, kind in shape.partitions.items()
    ]
    numbers = [LEAST] * footer.num_row_groups
    if shape.leading:
        name = ".".join(("add.stats_parsed.minValues", *shape.leading[0]))
        kind = shape.kind_of(shape.leading[0])
        column = build_array(leaves.least(name, kind), kind)
        numbers = sort_numbers([column])[0].tolist()
    columns = [
        plain(build_array(values, kind))
        for values, kind in zip(partitions, shape.partitions.values(), strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else [()] * footer.num_row_groups
    return [
        LowerBound(tuple(row), number) if leaves.has_adds(at) else None
        for at, (row, number) in enumerate(zip(rows, numbers, strict=True))
    ]


class _Leaves:
    """The least values of leaf columns, one for each row group."""

    def __init__(self, footer: pq.FileMetaData) -> None:
        self._footer = footer
        self._places: dict[str, int] = {}
        for at in range(footer.num_columns):
            name = footer.schema.column(at).path
            # A dot may be part of a name, so a path may mean two leaves: then it means none.
            self._places[name] = -1 if name in self._places else at
        self._others = self._nulls("add.path")

    def has_adds(self, group: int) -> bool:
        """Whether a row group may have an add."""
        return self._others[group] != self._footer.row_group(group).num_rows

    def least(self, name: str, kind: DataType) -> list[Any]:
        """Return the least values; None where one is null, or nothing is known."""
        place = self._places.get(name, -1)
        if place < 0:
            return [None] * self._footer.num_row_groups
        bounds = ColumnBounds(self._footer.schema.column(place), kind, upper=False)
        return [
            bounds.of(chunk) if nulls is not None and nulls == others else None
            for chunk, nulls, others in zip(
                self._chunks(place), self._nulls(name), self._others, strict=True
            )
        ]

    def _nulls(self, name: str) -> list[int | None]:
        """Return how many rows are null; those of other actions are among them."""
        chunks = self._chunks(self._places.get(name, -1))
        return [c.null_count if c is not None and c.has_null_count else None for c in chunks]

    def _chunks(self, place: int) -> list[Any]:
        groups = range(self._footer.num_row_groups)
        if place < 0:
            return [None for _ in groups]
        return [self._footer.row_group(at).column(place).statistics for at in groups]


def _least(one: LowerBound | None, other: LowerBound | None) -> LowerBound | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
