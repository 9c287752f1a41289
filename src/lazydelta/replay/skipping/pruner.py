"""Prune the files, and the parts of a checkpoint, that cannot match a predicate.

The predicate is bound and rewritten to statistics once, then evaluated per batch of adds. A file is
pruned only if its partition values and statistics rule out a match; missing, truncated or
contradictory statistics keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta import expressions
from lazydelta.expressions import nodes
from lazydelta.replay.skipping.file_stats import (
    FileStats,
    is_string_only,
    leaf_name,
    physical_paths,
)
from lazydelta.replay.skipping.row_group_pruning import keep_row_groups, row_group_rule
from lazydelta.replay.skipping.zone_maps import keep_zone_maps

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow.parquet as pq

    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Stat
    from lazydelta.replay.skipping.zone_maps import ZoneMap
    from lazydelta.schema import StructType

__all__ = ["Pruner"]


@dataclass(frozen=True, kw_only=True)
class Pruner:
    """A predicate prepared for data skipping.

    `rule` is over statistics, and FALSE only if no row of the file can match. `quick` is the same
    without the checks of null counts: these stand at the end of the JSON statistics, and matter
    only if a bound is missing.
    """

    predicate: Predicate | None = None
    rule: Predicate | None = None
    quick: Predicate | None = None
    physical: Mapping[Stat, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        predicate: Predicate | None,
        *,
        schema: StructType,
        partition_columns: Sequence[str],
        mapping_mode: str,
        generated: bool = False,
    ) -> Pruner:
        """Bind a predicate to a table's schema and rewrite it to statistics.

        Args:
            predicate: The unbound predicate; None keeps every file.
            schema: The table's logical schema.
            partition_columns: Logical names of the partition columns.
            mapping_mode: The column mapping mode: `none`, `name` or `id`.
            generated: Whether the protocol required writers to enforce generation expressions, so
                that predicates on source columns imply ones on generated partition columns.

        Raises:
            ColumnNotFoundError: The schema has no such column.
            PredicateError: The predicate does not fit the schema.
        """
        if predicate is None:
            return cls()
        bound = expressions.bind(predicate, schema, partition_columns)
        derived = expressions.derivations(schema, partition_columns) if generated else ()
        rule = expressions.to_skipping(bound, derived)
        quick = expressions.to_skipping(bound, derived, null_checks=False)
        return cls(
            predicate=bound,
            rule=rule,
            quick=quick,
            physical=physical_paths(_stats(rule), schema, mapping_mode),
        )

    @property
    def matches_nothing(self) -> bool:
        """Whether no row of any file can match."""
        return self.rule is not None and self.rule == nodes.Constant(False)

    @cached_property
    def row_groups(self) -> Predicate | None:
        """The rule over footers of checkpoints, built on first use."""
        return None if self.rule is None else row_group_rule(self.rule)

    @property
    def needs_partition_values(self) -> bool:
        """Whether the mask uses partition values."""
        return any(stat.kind == "partition" for stat in self.physical)

    @property
    def needs_stats(self) -> bool:
        """Whether the mask uses statistics."""
        return any(stat.kind != "partition" for stat in self.physical)

    def checkpoint_leaves(self, available: Collection[str]) -> list[str]:
        """Return the available leaf columns of a checkpoint that the mask needs.

        Typed columns are preferred to JSON statistics and the map of partition values.
        """
        leaves = sorted(available)
        typed = any(name.startswith("add.stats_parsed.") for name in leaves)
        needed: set[str] = set()
        for stat, path in self.physical.items():
            name = leaf_name(stat, path)
            if name in available and not is_string_only(stat):
                needed.add(name)
            elif stat.kind == "partition":
                needed.update(n for n in leaves if n.startswith("add.partitionValues."))
            elif not typed:
                needed.update(n for n in leaves if n == "add.stats")
        return [name for name in leaves if name in needed]

    def mask(self, adds: pa.RecordBatch) -> pa.BooleanArray | None:
        """Return a mask of the files to keep, without nulls; None keeps all.

        Args:
            adds: Add actions, with a column per field: `partitionValues` or
                `partitionValues_parsed`, `stats` or `stats_parsed`.
        """
        if self.rule is None or not adds.num_rows:
            return None
        typed = "stats_parsed" in adds.schema.names
        first = self.rule if typed or self.quick is None else self.quick
        stats = self._file_stats(adds, first)
        matches = expressions.evaluate(first, stats.stat, adds.num_rows)
        if first is not self.rule:
            matches = self._resolve_unknown(adds, matches)
        keep = pc.or_kleene(matches, pc.is_null(matches))
        unreadable = stats.unreadable
        return keep if unreadable is None else pc.or_(keep, unreadable)

    def keep_row_groups(self, metadata: pq.FileMetaData) -> list[int]:
        """Return the row groups of a checkpoint that may have the add of a matching file."""
        if self.matches_nothing:
            return []
        return keep_row_groups(self.row_groups, metadata, self.physical)

    def keep_zone_maps(self, zones: Sequence[ZoneMap | None]) -> list[bool]:
        """Return which sidecars may have the add of a matching file; None has no zone map."""
        return keep_zone_maps(self.row_groups, zones, self.physical)

    def _file_stats(self, adds: pa.RecordBatch, rule: Predicate) -> FileStats:
        return FileStats(adds, {stat: self.physical[stat] for stat in _stats(rule)})

    def _resolve_unknown(self, adds: pa.RecordBatch, matches: pa.BooleanArray) -> pa.BooleanArray:
        """Evaluate the full rule for the files that the quick rule leaves unknown."""
        unknown = pc.is_null(matches)
        if self.rule is None or not unknown.true_count:
            return matches
        undecided = adds.filter(unknown)
        stats = self._file_stats(undecided, self.rule)
        resolved = expressions.evaluate(self.rule, stats.stat, undecided.num_rows)
        return pc.replace_with_mask(matches, unknown, resolved)


def _stats(rule: Predicate | None) -> list[Stat]:
    tree = () if rule is None else rule.walk()
    return list(dict.fromkeys(node for node in tree if isinstance(node, nodes.Stat)))
