"""Which files, and which parts of a checkpoint, may hold a row that a predicate wants.

Pure: batches of add actions in, a mask out. The predicate is bound and rewritten once; then each
batch is one evaluation. A file is dropped only where its partition values and statistics rule a
match out; what is missing, cut, wide or senseless keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions import bind, derivations, evaluate, to_skipping
from lazydelta.expressions.nodes import Constant, Stat
from lazydelta.replay.row_group_pruning import keep_row_groups, row_group_rule
from lazydelta.replay.stats_values import FileFacts, is_string_only, leaf_name, physical_paths
from lazydelta.replay.zone_maps import keep_zone_maps

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow.parquet as pq

    from lazydelta.expressions import Predicate
    from lazydelta.replay.zone_maps import ZoneMap
    from lazydelta.schema import StructType

__all__ = ["Pruner"]


@dataclass(frozen=True, kw_only=True)
class Pruner:
    """A predicate, made ready to drop files.

    `rule` is over statistics and FALSE only if no row of the file can match. `quick` is the same
    without the checks that a column has values at all: those need the null counts, at the far
    end of the text of JSON statistics, and decide only where a bound is missing.
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
        """Bind a predicate to a table and rewrite it.

        Args:
            predicate: Not bound yet; None keeps every file.
            schema: The table's logical schema.
            partition_columns: Their logical names.
            mapping_mode: The table's column mapping: `none`, `name` or `id`.
            generated: Whether writers had to keep to generation expressions, so that generated
                partition columns say something about their sources.

        Raises:
            ColumnNotFoundError: The predicate names a column that the schema does not have.
            PredicateError: The predicate does not fit the schema.
        """
        if predicate is None:
            return cls()
        bound = bind(predicate, schema, partition_columns)
        derived = derivations(schema, partition_columns) if generated else ()
        rule = to_skipping(bound, derived)
        quick = to_skipping(bound, derived, null_checks=False)
        return cls(
            predicate=bound,
            rule=rule,
            quick=quick,
            physical=physical_paths(_stats(rule), schema, mapping_mode),
        )

    @property
    def matches_nothing(self) -> bool:
        """Whether no row of any file can match."""
        return self.rule == Constant(False)

    @cached_property
    def row_groups(self) -> Predicate | None:
        """The rule over footers of checkpoints; many tables have none."""
        return None if self.rule is None else row_group_rule(self.rule)

    @property
    def needs_partition_values(self) -> bool:
        """Whether the mask looks at partition values."""
        return any(stat.kind == "partition" for stat in self.physical)

    @property
    def needs_stats(self) -> bool:
        """Whether the mask looks at statistics."""
        return any(stat.kind != "partition" for stat in self.physical)

    def checkpoint_leaves(self, available: Collection[str]) -> list[str]:
        """Return the leaf columns of a checkpoint that the mask needs, of those it has.

        Typed columns are preferred to the text and the map they were made from.
        """
        known = sorted(available)
        typed = any(name.startswith("add.stats_parsed.") for name in known)
        wanted: set[str] = set()
        for stat, path in self.physical.items():
            name = leaf_name(stat, path)
            if name in available and not is_string_only(stat):
                wanted.add(name)
            elif stat.kind == "partition":
                wanted.update(n for n in known if n.startswith("add.partitionValues."))
            elif not typed:
                wanted.update(n for n in known if n == "add.stats")
        return [name for name in known if name in wanted]

    def mask(self, adds: pa.RecordBatch) -> pa.BooleanArray | None:
        """Return which files to keep, without nulls; None keeps all.

        Args:
            adds: Add actions, with columns named as their fields: `partitionValues` or
                `partitionValues_parsed`, `stats` or `stats_parsed`.
        """
        if self.rule is None or not adds.num_rows:
            return None
        typed = "stats_parsed" in adds.schema.names
        first = self.rule if typed or self.quick is None else self.quick
        facts = self._facts(adds, first)
        found = evaluate(first, facts.stat, adds.num_rows)
        if first is not self.rule:
            found = self._decide_unknown(adds, found)
        keep = pc.or_kleene(found, pc.is_null(found))
        unreadable = facts.unreadable
        return keep if unreadable is None else pc.or_(keep, unreadable)

    def keep_row_groups(self, metadata: pq.FileMetaData) -> list[int]:
        """Return the row groups of a checkpoint that may hold the add of a matching file."""
        if self.matches_nothing:
            return []
        return keep_row_groups(self.row_groups, metadata, self.physical)

    def keep_zone_maps(self, zones: Sequence[ZoneMap | None]) -> list[bool]:
        """Return which sidecars may hold the add of a matching file; None has no zones."""
        return keep_zone_maps(self.row_groups, zones, self.physical)

    def _facts(self, adds: pa.RecordBatch, rule: Predicate) -> FileFacts:
        return FileFacts(adds, {stat: self.physical[stat] for stat in _stats(rule)})

    def _decide_unknown(self, adds: pa.RecordBatch, found: pa.BooleanArray) -> pa.BooleanArray:
        """Look at null counts where the quick rule could not tell."""
        unknown = pc.is_null(found)
        if self.rule is None or not unknown.true_count:
            return found
        some = adds.filter(unknown)
        facts = self._facts(some, self.rule)
        decided = evaluate(self.rule, facts.stat, some.num_rows)
        return pc.replace_with_mask(found, unknown, decided)


def _stats(rule: Predicate | None) -> list[Stat]:
    nodes = () if rule is None else rule.walk()
    return list(dict.fromkeys(node for node in nodes if isinstance(node, Stat)))
