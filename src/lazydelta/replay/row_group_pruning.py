"""Which row groups of a checkpoint may hold the add of a matching file, from its footer alone.

A checkpoint's typed statistics are ordinary columns, so the footer has the least and greatest of
each `min` and each `max` per row group. The rule over statistics is itself a predicate on rows,
the rows of the checkpoint; rewriting it once more gives a rule over the footer. For that, "a
missing statistic keeps the file" has to be part of the rule (`expressions.guarded`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions import evaluate, guarded, to_skipping
from lazydelta.expressions.nodes import Column, Stat
from lazydelta.parquet import ColumnBounds, first_certain, leaf_columns
from lazydelta.replay.stats_values import (
    ANY_CHARACTER,
    CUT_MICROS,
    is_rounded,
    is_string_only,
    leaf_name,
)
from lazydelta.schema import build_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from lazydelta.expressions import Predicate
    from lazydelta.schema import DataType

__all__ = ["keep_row_groups", "row_group_rule"]

_TIMES = ("timestamp", "timestamp_ntz")
_LAST_MICROS = 2**63 - 1


def row_group_rule(rule: Predicate) -> Predicate | None:
    """Return the rule over footers: FALSE only if `rule` is FALSE for every add of a row group.

    In it, the path of a `Stat` is that of the statistic in the given rule, its kind first.
    """
    return to_skipping(_on_columns(guarded(rule)))


def keep_row_groups(
    rule: Predicate | None, metadata: pq.FileMetaData, physical: Mapping[Stat, tuple[str, ...]]
) -> list[int]:
    """Return the row groups that hold adds, and for which the rule is not FALSE."""
    footer = _Footer(metadata, physical)
    count = metadata.num_row_groups
    groups = [at for at in range(count) if footer.adds[at] != 0]
    if rule is None or not groups:
        return groups
    found = evaluate(rule, footer.stat, count)
    kept = pc.or_kleene(found, pc.is_null(found)).to_pylist()
    return [at for at in groups if kept[at]]


def _on_columns(node: Any) -> Any:
    if isinstance(node, Stat):
        return Column((node.kind, *node.path), node.type)
    return node.rebuild(tuple(map(_on_columns, node.parts())))


class _Footer:
    """The footer as statistics of statistics, one value for each row group."""

    def __init__(self, metadata: pq.FileMetaData, physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.metadata = metadata
        self.columns = leaf_columns(metadata)
        names = [self.columns.column(at).path for at in range(len(self.columns))]
        # A dot may be part of a name, so a path may mean two leaves: then it means none.
        times = Counter(names)
        self.places = {name: at for at, name in enumerate(names) if times[name] == 1}
        self.leaves = {
            (stat.kind, *stat.path): leaf_name(stat, physical[stat])
            for stat in physical
            if not is_string_only(stat)
        }
        rows = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
        others = self._null_counts("add.path")
        pairs = list(zip(rows, others, strict=True))
        self.others = others
        self.adds = [None if nulls is None else count - nulls for count, nulls in pairs]

    def stat(self, stat: Any) -> pa.Array:
        """Return a fact for every row group; null is unknown."""
        if stat.kind == "num_records":
            return build_array(self.adds, stat.type)
        name = self.leaves.get(stat.path, "")
        if stat.kind == "null_count":
            pairs = zip(self._null_counts(name), self.others, strict=True)
            known = [None if None in pair else pair[0] - pair[1] for pair in pairs]
            if stat.path[0] == "partition":
                known = self._without_empty(name, known)
            return build_array(known, stat.type)
        return build_array(self._bounds(name, stat), stat.type)

    def _null_counts(self, name: str) -> list[Any]:
        """Return how many rows are null; those of other actions are among them."""
        return [s.null_count if s and s.has_null_count else None for s in self._chunks(name)]

    def _without_empty(self, name: str, known: list[Any]) -> list[Any]:
        """Return counts of nulls; unknown where a text may be empty, which is NULL as well."""
        place = self.places.get(name)
        if place is None or self.columns.column(place).physical_type != "BYTE_ARRAY":
            return known
        least = [s.min_raw if s and s.has_min_max else "" for s in self._chunks(name)]
        return [
            count if low not in ("", b"") or count == adds else None
            for low, count, adds in zip(least, known, self.adds, strict=True)
        ]

    def _bounds(self, name: str, stat: Stat) -> list[Any]:
        if str(stat.type) in ("float", "double"):
            return [None] * self.metadata.num_row_groups  # NaN is not in them
        if name not in self.places:
            return [None] * self.metadata.num_row_groups
        column = self.columns.column(self.places[name])
        first = first_certain(self.metadata, stat.type)
        bounds = ColumnBounds(column, stat.type, upper=stat.kind == "max", first=first)
        return [_moved(bounds.of(chunk), stat.path[0], stat.type) for chunk in self._chunks(name)]

    def _chunks(self, name: str) -> list[Any]:
        place = self.places.get(name)
        groups = range(self.metadata.num_row_groups)
        if place is None:
            return [None for _ in groups]
        return [self.metadata.row_group(at).column(place).statistics for at in groups]


def _moved(value: Any, kind: str, data_type: DataType) -> Any:
    """Move a value as the statistic it is a bound of is moved (see `replay.stats_values`)."""
    if value is None or kind not in ("min", "max"):
        return value
    if str(data_type) in _TIMES and kind == "max":
        return min(value + CUT_MICROS, _LAST_MICROS)
    if kind == "max" and isinstance(value, str) and value.endswith(ANY_CHARACTER):
        return None
    return None if is_rounded(data_type) else value
