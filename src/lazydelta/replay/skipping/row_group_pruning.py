"""Prune row groups of a checkpoint by the statistics of its footer.

Typed statistics are ordinary columns of a checkpoint, so the footer has the minimum and maximum of
each `min` and each `max` per row group. The rule over statistics is a predicate on the rows of the
checkpoint; rewriting it once more gives a rule over the footer. For this, the rule must state that
a missing statistic keeps the file (`expressions.guarded`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta import expressions, parquet
from lazydelta.expressions import nodes
from lazydelta.parquet import footer
from lazydelta.replay.skipping.file_stats import (
    TRUNCATED_MICROS,
    TRUNCATION_MARKER,
    is_rounded,
    is_string_only,
    leaf_name,
)
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Stat
    from lazydelta.schema import DataType

__all__ = ["keep_row_groups", "row_group_rule"]

_TIMESTAMPS = ("timestamp", "timestamp_ntz")
_MAX_MICROS = 2**63 - 1


def row_group_rule(rule: Predicate) -> Predicate | None:
    """Return the rule over footers: FALSE only if `rule` is FALSE for every add of a row group.

    The path of a `Stat` in it is the kind and the path of a statistic of `rule`.
    """
    return expressions.to_skipping(_on_columns(expressions.guarded(rule)))


def keep_row_groups(
    rule: Predicate | None, metadata: pq.FileMetaData, physical: Mapping[Stat, tuple[str, ...]]
) -> list[int]:
    """Return the row groups that have adds, and for which the rule is not FALSE."""
    stats = _FooterStats(metadata, physical)
    count = metadata.num_row_groups
    groups = [group for group in range(count) if stats.adds[group] != 0]
    if rule is None or not groups:
        return groups
    matches = expressions.evaluate(rule, stats.stat, count)
    keep = pc.or_kleene(matches, pc.is_null(matches)).to_pylist()
    return [group for group in groups if keep[group]]


def _on_columns(node: Any) -> Any:
    if isinstance(node, nodes.Stat):
        return nodes.Column((node.kind, *node.path), node.type)
    return node.rebuild(tuple(map(_on_columns, node.parts())))


class _FooterStats:
    """Statistics of the footer about the statistics of adds, one value per row group."""

    def __init__(self, metadata: pq.FileMetaData, physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.metadata = metadata
        self.columns = footer.leaf_columns(metadata)
        names = [self.columns.column(index).path for index in range(len(self.columns))]
        # A name may contain a dot, which makes a path ambiguous: ambiguous paths are not used.
        counts = Counter(names)
        self.indices = {name: index for index, name in enumerate(names) if counts[name] == 1}
        self.leaves = {
            (stat.kind, *stat.path): leaf_name(stat, physical[stat])
            for stat in physical
            if not is_string_only(stat)
        }
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        others = self._null_counts("add.path")
        pairs = list(zip(rows, others, strict=True))
        self.others = others
        self.adds = [None if nulls is None else count - nulls for count, nulls in pairs]

    def stat(self, stat: Any) -> pa.Array:
        """Return a statistic of every row group; null is unknown."""
        if stat.kind == "num_records":
            return build_array(self.adds, stat.type)
        name = self.leaves.get(stat.path, "")
        if stat.kind == "null_count":
            pairs = zip(self._null_counts(name), self.others, strict=True)
            counts = [None if None in pair else pair[0] - pair[1] for pair in pairs]
            if stat.path[0] == "partition":
                counts = self._with_empty_as_unknown(name, counts)
            return build_array(counts, stat.type)
        return build_array(self._bounds(name, stat), stat.type)

    def _null_counts(self, name: str) -> list[Any]:
        """Return the null counts, which include the rows of other actions."""
        return [s.null_count if s and s.has_null_count else None for s in self._chunks(name)]

    def _with_empty_as_unknown(self, name: str, counts: list[Any]) -> list[Any]:
        """Return the null counts; unknown if a string may be empty, which means NULL too."""
        index = self.indices.get(name)
        if index is None or self.columns.column(index).physical_type != "BYTE_ARRAY":
            return counts
        minimums = [s.min_raw if s and s.has_min_max else "" for s in self._chunks(name)]
        return [
            count if minimum not in ("", b"") or count == adds else None
            for minimum, count, adds in zip(minimums, counts, self.adds, strict=True)
        ]

    def _bounds(self, name: str, stat: Stat) -> list[Any]:
        if str(stat.type) in ("float", "double"):
            return [None] * self.metadata.num_row_groups  # footers ignore NaN
        if name not in self.indices:
            return [None] * self.metadata.num_row_groups
        column = self.columns.column(self.indices[name])
        first = parquet.first_unambiguous(self.metadata, stat.type)
        bounds = parquet.ColumnBounds(column, stat.type, upper=stat.kind == "max", first=first)
        return [_widened(bounds.of(chunk), stat.path[0], stat.type) for chunk in self._chunks(name)]

    def _chunks(self, name: str) -> list[Any]:
        index = self.indices.get(name)
        groups = range(self.metadata.num_row_groups)
        if index is None:
            return [None for _ in groups]
        return [self.metadata.row_group(group).column(index).statistics for group in groups]


def _widened(value: Any, kind: str, data_type: DataType) -> Any:
    """Widen a bound of a statistic as `file_stats.sanitize_stats` widens the statistic."""
    if value is None or kind not in ("min", "max"):
        return value
    if str(data_type) in _TIMESTAMPS and kind == "max":
        return min(value + TRUNCATED_MICROS, _MAX_MICROS)
    if kind == "max" and isinstance(value, str) and value.endswith(TRUNCATION_MARKER):
        return None
    return None if is_rounded(data_type) else value
