"""Matching of a MERGE: Spark joins the table's rows with the source, and chooses clauses.

The source and the result of the join are materialized by a checkpoint: a source that would give
other rows when it is computed again (a query with `rand()`, files that are replaced) is evaluated
once. `spark.checkpoint.dir` lets the checkpoints survive lost executors; without it they are local,
and a lost executor fails the operation before the commit.

Every join has a hint. Spark takes the size of what a Python task returns from its input, here the
list of files, and would broadcast the rows of a large table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import ColumnNotFoundError, ConfigError, MultipleMatchesError, PredicateError
from lazydelta.expressions import as_predicate
from lazydelta.expressions.nodes import Or
from lazydelta.operations.dml import has_vectors
from lazydelta.operations.dml.merge import (
    MergeExplanation,
    shown_sql,
    split_condition,
    target_predicate,
)
from lazydelta.scan.plan import live_adds
from lazydelta.spark import tuning
from lazydelta.spark.dml.frame_columns import CLAUSE, FILE, ROW, SOURCE_ROW
from lazydelta.spark.dml.positions import find_positions
from lazydelta.spark.dml.target import RowRead, TargetFiles
from lazydelta.spark.dml.target_candidates import candidate_files
from lazydelta.spark.dml.verb_run import matched_rows
from lazydelta.spark.planner import pruner_for
from lazydelta.spark.session_sql import is_independent_of_session, mentioned_columns
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import Column, DataFrame

    from lazydelta.expressions import Predicate
    from lazydelta.operations.dml import Verb
    from lazydelta.operations.dml.merge import Condition
    from lazydelta.scan import Where
    from lazydelta.spark.dml.merge_clauses import SparkClauses
    from lazydelta.spark.dml.target_candidates import Candidates
    from lazydelta.spark.dml.verb_run import VerbRun

__all__ = ["MergeMatches"]

_CHECKPOINT_DIRECTORY = "spark.checkpoint.dir"
_SIZES = pa.schema([ADDS.field(name) for name in ("path", "size", "deletionVector")])


@dataclass(frozen=True, kw_only=True)
class MergeMatches:
    """The source and the table of a MERGE, joined."""

    plan: SparkClauses
    verb: Verb
    source: DataFrame
    """The materialized source, with `SOURCE_ROW`."""

    @classmethod
    def of(cls, plan: SparkClauses, verb: Verb, source: DataFrame) -> MergeMatches:
        """Materialize the source.

        Raises:
            ConfigError: The source has a column of ours.
        """
        for name in source.columns:
            if name.lower() in (FILE, ROW, CLAUSE, SOURCE_ROW):
                raise ConfigError("source", f"cannot have a column {name!r}")
        numbered = source.withColumn(SOURCE_ROW, f.monotonically_increasing_id())
        return cls(plan=plan, verb=verb, source=_materialized(numbered))

    @cached_property
    def num_source_rows(self) -> int:
        """The number of rows of the source."""
        return self.source.count()

    @cached_property
    def condition(self) -> Condition | None:
        """The condition, if our grammar has it."""
        try:
            return split_condition(self.plan.request.on, self.plan.scope)
        except (PredicateError, ColumnNotFoundError):
            return None

    @cached_property
    def on_target(self) -> Predicate | None:
        """The part of the condition over the table alone, if our grammar has it."""
        if self.condition is None:
            return None
        return self._usable(self.plan.request.on, self.condition.target_only)

    @cached_property
    def not_matched_by_source(self) -> Predicate | None:
        """A condition that holds for rows without a match that change; None if not known."""
        clauses = self.plan.of_kind("not_matched_by_source")
        scope, found = self.plan.scope, []
        try:
            for clause in clauses:
                predicate = as_predicate(clause.clause.where, now=scope.now)
                if predicate is None:
                    return None
                found.append(target_predicate(predicate, scope))
        except (PredicateError, ColumnNotFoundError):
            return None
        sql = " ".join(clause.where or "" for clause in clauses)
        return self._usable(sql, found[0] if len(found) == 1 else Or(tuple(found)))

    def _usable(self, where: Where, predicate: Predicate | None) -> Predicate | None:
        if predicate is None:
            return None
        plan = self.plan
        try:
            usable = is_independent_of_session(plan.spark, plan.snapshot, where, predicate)
        except (PredicateError, ColumnNotFoundError):
            return None
        return predicate if usable else None

    @property
    def read_predicate(self) -> Predicate | None:
        """The rows that the operation reads, for conflict detection; None is all rows."""
        return None if self.plan.of_kind("not_matched_by_source") else self.on_target

    @cached_property
    def target(self) -> Candidates:
        """The files that may have rows that match, or change."""
        return candidate_files(self.plan.spark, self.plan.snapshot, self.read_predicate)

    @cached_property
    def changed(self) -> DataFrame:
        """Rows of the table that match or change: `FILE`, `ROW`, `CLAUSE`, `SOURCE_ROW`, values.

        `CLAUSE` is null for rows that match without a clause that holds.
        """
        plan, frames = self.plan, []
        if plan.of_kind("matched"):
            frames.append(self._matched())
        if plan.of_kind("not_matched_by_source"):
            frames.append(self._not_matched_by_source())
        united = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
        return _materialized(united)

    def _matched(self) -> DataFrame:
        plan = self.plan
        joined = self._joined_rows()
        clauses = plan.of_kind("matched")
        rows = plan.with_clause(joined, clauses)
        if not plan.of_kind("not_matched"):
            rows = rows.where(f.col(CLAUSE).isNotNull())
        return rows.select(FILE, ROW, CLAUSE, SOURCE_ROW, *plan.with_values(rows, clauses))

    def _not_matched_by_source(self) -> DataFrame:
        plan = self.plan
        rows = self._target_rows(self.not_matched_by_source)
        joined = rows.join(self._joined_source, self._on, "left_anti")
        clauses = plan.of_kind("not_matched_by_source")
        chosen = plan.with_clause(joined, clauses).where(f.col(CLAUSE).isNotNull())
        no_source = f.lit(None).cast(t.LongType()).alias(SOURCE_ROW)
        return chosen.select(FILE, ROW, CLAUSE, no_source, *plan.with_values(chosen, clauses))

    def inserted(self) -> DataFrame:
        """Return the source rows without a match that a clause inserts, with `CLAUSE`."""
        plan = self.plan
        joined = self.changed if plan.of_kind("matched") else self._joined_rows()
        matched = joined.select(f.col(SOURCE_ROW).alias(f"{SOURCE_ROW}_matched")).hint("merge")
        on = f.col(SOURCE_ROW) == f.col(f"{SOURCE_ROW}_matched")
        rows = self._source_rows().join(matched, on, "left_anti")
        chosen = plan.with_clause(rows, plan.of_kind("not_matched"))
        return chosen.where(f.col(CLAUSE).isNotNull())

    def found(self) -> AbstractContextManager[VerbRun]:
        """Find the positions of rows that change."""
        plan, target, positions = self.plan, self.target, None
        if not plan.request.only_inserts and not target.is_empty:
            rows = self.changed.where(f.col(CLAUSE).isNotNull())
            positions = find_positions(rows, target.num_tasks)
        decided = TargetFiles.listed(plan.spark, plan.snapshot, ADDS.empty_table())
        return matched_rows(self.verb, target, decided, positions)

    def refuse_repeats(self, run: VerbRun) -> None:
        """Refuse a MERGE in which several source rows change one row.

        Raises:
            MultipleMatchesError: There are such rows.
        """
        if not run.has_repeats or self.plan.request.allows_duplicates:
            return
        rows = self.changed.where(f.col(CLAUSE).isNotNull())
        repeated = rows.groupBy(FILE, ROW).count().where("count > 1").first()
        shown = "a row" if repeated is None else self._shown_row(run, repeated[FILE], repeated[ROW])
        on = shown_sql(self.plan.request.on)
        raise MultipleMatchesError(self.plan.snapshot.store.root, on, shown)

    def _shown_row(self, run: VerbRun, file: int, position: int) -> str:
        """Return a row of the table by the columns of the condition."""
        from pyroaring import BitMap64

        plan, alias = self.plan, self.plan.request.target_alias
        columns = mentioned_columns(plan.snapshot, [shown_sql(plan.request.on)])
        read = RowRead.of(plan.spark, plan.snapshot, columns)
        files = run.target.chosen([file]).numbered()
        for _, batch in read.batches(files, {file: BitMap64([position])}):
            (row,) = batch.to_pylist()
            return ", ".join(f"{alias}.{name} = {row[name]}" for name in columns)
        return "a row"

    def has_match(self, files: pa.Table) -> bool:
        """Whether a row of other files matches the source, whether or not it would change."""
        plan = self.plan
        others = TargetFiles.listed(plan.spark, plan.snapshot, files)
        rows = others.rows(plan.read_columns, self.on_target).alias(plan.request.target_alias)
        return not rows.join(self._joined_source, self._on, "left_semi").isEmpty()

    def explain(self) -> MergeExplanation:
        """Return the plan; no job runs."""
        plan, condition = self.plan, self.condition
        files, size = self._total()
        keys = () if condition is None else condition.keys
        residual: str | None = shown_sql(plan.request.on)
        if condition is not None:
            residual = None if condition.residual is None else str(condition.residual)
        new = [f.name for f in plan.definition.schema if plan.snapshot.schema.get(f.name) is None]
        return MergeExplanation(
            table=plan.snapshot.store.root,
            version=plan.snapshot.version,
            key=tuple(f"{k.target} {'<=>' if k.null_safe else '='} {k.source}" for k in keys),
            target_condition=None if self.on_target is None else str(self.on_target),
            residual_condition=residual,
            files=files,
            bytes=size,
            match_columns=plan.read_columns,
            update_columns=plan.missing_columns,
            deletion_vectors=has_vectors(plan.snapshot),
            new_columns=tuple(new),
        )

    def _total(self) -> tuple[int, int]:
        """Return the number and the bytes of the files that may match."""
        snapshot, files, size = self.plan.snapshot, 0, 0
        for batch in live_adds(snapshot, _SIZES, pruner_for(snapshot, self.read_predicate)):
            files += batch.num_rows
            size += pc.sum(batch.column("size")).as_py() or 0
        return files, size

    @property
    def _on(self) -> Column:
        return f.expr(shown_sql(self.plan.request.on))

    def _target_rows(self, where: Predicate | None) -> DataFrame:
        rows = self.target.rows(self.plan.read_columns, where)
        return rows.alias(self.plan.request.target_alias)

    def _source_rows(self) -> DataFrame:
        return self.source.alias(self.plan.request.source_alias)

    def _joined_rows(self) -> DataFrame:
        """Return the rows of the table with the source rows that match them."""
        # The hint of the table is for a condition without equality, where Spark cannot sort.
        target = self._target_rows(self.on_target).hint("shuffle_replicate_nl")
        return target.join(self._joined_source, self._on, "inner")

    @cached_property
    def _joined_source(self) -> DataFrame:
        """The source as a side of a join: broadcast if it is small, else sorted."""
        row_bytes = f.avg(f.octet_length(f.struct("*").cast("string")))
        (sampled,) = self.source.limit(tuning.SAMPLED_SOURCE_ROWS).select(row_bytes).collect()
        is_small = self.num_source_rows * (sampled[0] or 0) <= tuning.BROADCAST_SOURCE_BYTES
        source = self._source_rows()
        return f.broadcast(source) if is_small else source.hint("merge")


def _materialized(rows: DataFrame) -> DataFrame:
    """Return the same rows, computed once."""
    if rows.sparkSession.conf.get(_CHECKPOINT_DIRECTORY, None):
        return rows.checkpoint()
    return rows.localCheckpoint()
