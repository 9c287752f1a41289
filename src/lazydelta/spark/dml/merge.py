"""MERGE on Spark: a join finds the rows, executors write files and vectors, the driver commits."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from lazydelta.errors import InternalError
from lazydelta.operations import UncommittedFiles
from lazydelta.operations.dml import (
    DmlRequest,
    DmlResult,
    RowChanges,
    WrittenChanges,
    has_change_feed,
    plan_counted_deletion,
)
from lazydelta.operations.dml.merge import (
    METRIC_NAMES,
    MergeClauses,
    MergeRequest,
    merge_metrics,
)
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.dml.frame_columns import CLAUSE, FILE, ROW, SOURCE_ROW
from lazydelta.spark.dml.merge_clauses import SparkClauses, value_name
from lazydelta.spark.dml.merge_matches import MergeMatches
from lazydelta.spark.dml.new_rows import RowWriter
from lazydelta.spark.dml.source_numbers import SourceNumbers
from lazydelta.spark.dml.start import TableAccess, start_verb
from lazydelta.spark.dml.update import row_ids
from lazydelta.spark.dml.verb_run import check_count, load_rows
from lazydelta.spark.spark_errors import raises_spark_errors, with_spark_errors
from lazydelta.transaction import ADDS
from lazydelta.writer.columns import furthest_values

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.config import Config
    from lazydelta.operations.dml import Verb
    from lazydelta.operations.dml.merge import MergeExplanation
    from lazydelta.scan import Where
    from lazydelta.spark.dml.merge_clauses import NumberedClause
    from lazydelta.spark.dml.verb_run import VerbRun
    from lazydelta.store.cloud import Credential
    from lazydelta.writer.enforcement import Enforcement

__all__ = ["SparkMergeBuilder", "merge"]


@raises_spark_errors
def merge(
    spark: SparkSession,
    url: str | os.PathLike[str],
    source: DataFrame,
    on: Where,
    *,
    target_alias: str = "t",
    source_alias: str = "s",
    merge_schema: bool = False,
    app_id: str | None = None,
    app_version: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
) -> SparkMergeBuilder:
    """Start a MERGE: update, delete and insert rows by comparing them with a DataFrame.

    Nothing runs until `execute()`. The clauses and the result are those of `Table.merge`, for
    tables and sources of any size: Spark joins the columns that the conditions read, and executors
    write files and deletion vectors. The driver receives add actions and descriptors, and commits
    once. Spark evaluates all expressions; in its ANSI mode, which is required.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed and
            access to the table's store.
        url: The table's location.
        source: The rows. They are materialized once, so a query that gives other rows when it is
            repeated does no harm.
        on: The condition on a row of the table and one of the source.
        target_alias: The name of the table in expressions.
        source_alias: The name of the source in expressions.
        merge_schema: Whether columns of the source that clauses assign are added to the table.
        app_id: With `app_version`: makes the operation idempotent.
        app_version: The version of the application's transaction; it must increase.
        commit_metadata: User metadata for the commit.
        dry_run: Whether `execute()` returns what would happen, and writes nothing.
        storage_options: Store settings of this process, as for `read`.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        credential: A function of a module that returns a token or keys.
    """
    options = DmlRequest(
        app_id=app_id,
        app_version=app_version,
        commit_metadata=commit_metadata or {},
        dry_run=dry_run,
    )
    request = MergeRequest(
        on=on,
        target_alias=target_alias,
        source_alias=source_alias,
        merge_schema=merge_schema,
        options=options,
    )
    access = TableAccess(
        url=url, storage_options=storage_options, config=config, credential=credential
    )
    return SparkMergeBuilder(spark=spark, access=access, source=source, request=request)


@with_spark_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMergeBuilder(MergeClauses):
    """A MERGE under construction. Immutable: each method returns a new builder."""

    spark: SparkSession
    access: TableAccess
    source: DataFrame

    def explain(self) -> MergeExplanation:
        """Return the plan, from the log and the schema of the source: no job runs.

        Raises the errors of `execute` that need no rows.
        """
        request = replace(self.request.options, app_id=None, app_version=None)
        appends = self.request.only_inserts
        started = start_verb(self.spark, "MERGE", self.access, request, only_appends=appends)
        if isinstance(started, DmlResult):  # pragma: no cover - it has no application transaction
            raise InternalError("a MERGE without an application transaction is applied")
        verb, _ = started
        plan = SparkClauses.plan(self.spark, verb.snapshot, self.source, self.request)
        return MergeMatches(plan=plan, verb=verb, source=self.source).explain()

    def execute(self) -> DmlResult:
        """Run the MERGE as one new version; without a change there is no commit.

        Raises:
            MultipleMatchesError: Several source rows change one row of the table.
            ConfigError: There is no clause, or two assignments of one column.
            ConstraintViolationError: A new row violates a constraint; nothing is committed.
            SchemaMismatchError: Values cannot be stored in their column.
            AppendOnlyError: The table is append-only, and a clause does not only insert.
            CommitConflictError: A concurrent commit conflicts with this one.
            PySparkException: Spark refuses an expression, or tasks failed; nothing is committed.
        """
        request, spark = self.request, self.spark
        appends = request.only_inserts
        started = start_verb(spark, "MERGE", self.access, request.options, only_appends=appends)
        if isinstance(started, DmlResult):
            return started
        verb, _ = started
        plan = SparkClauses.plan(spark, verb.snapshot, self.source, request)
        matches = MergeMatches.of(plan, verb, self.source)
        verb = replace(
            verb,
            predicate=matches.read_predicate,
            metric_names=METRIC_NAMES,
            reads_unchanged_rows=request.reads_unchanged_rows,
        )
        matches = replace(matches, verb=verb)
        with matches.found() as run:
            matches.refuse_repeats(run)
            merging = _Merging(plan=plan, matches=matches, run=run)
            return merging.dry() if request.options.dry_run else merging.execute()


@dataclass(kw_only=True)
class _Merging:
    """One run of a MERGE, after its rows are matched."""

    plan: SparkClauses
    matches: MergeMatches
    run: VerbRun
    inserted: int = 0
    high_water_marks: Mapping[str, int] = field(default_factory=dict)
    """The furthest new value of each identity column."""
    updated_files: list[tuple[pa.Table, Enforcement]] = field(default_factory=list)
    inserted_files: list[tuple[pa.Table, Enforcement]] = field(default_factory=list)

    @property
    def verb(self) -> Verb:
        return self.run.verb

    def dry(self) -> DmlResult:
        """Return what would happen."""
        if self.plan.of_kind("not_matched"):
            self.inserted = self.matches.inserted().count()
        metrics = {**self._metrics(), **self.verb.file_metrics(self.run.deletion)}
        return self.verb.nothing(self.verb.named(metrics), dry_run=True)

    def execute(self) -> DmlResult:
        """Write the changes and commit them."""
        verb, run = self.verb, self.run
        found = time.monotonic()
        writer = RowWriter(spark=self.plan.spark, verb=verb, definition=self.plan.definition)
        with UncommittedFiles(verb.store, None) as files:
            self._write_updates(writer, files)
            self._write_inserts(writer, files)
            if not run.touched.num_rows and not self.inserted:
                return verb.nothing(verb.named(self._metrics()))
            written = self._with_changes(run.write_deletion(files), writer, files)
            new = [adds for adds, _ in (*self.updated_files, *self.inserted_files)]
            written = replace(written, adds=pa.concat_tables([written.adds, *new]))
            metrics: dict[str, int | None] = {**self._metrics()}
            metrics["numOutputRows"] = self._rows("update") + self.inserted + written.copied_rows
            metrics |= verb.phases(found)
            parameters = self.plan.request.parameters()
            changes = RowChanges(
                deletion=run.deletion, written=written, metrics=metrics, **self._definition()
            )
            return verb.commit(changes, parameters, files, again=self._again, load_rows=load_rows)

    def _again(self, added: pa.Table) -> RowChanges | None:
        """Return no changes for files that a concurrent commit added, if none of their rows match.

        If one does, its source row may have been inserted already: that is a conflict, None.
        """
        if self.plan.of_kind("not_matched_by_source") or self.matches.has_match(added):
            return None
        nothing = ADDS.empty_table()
        deletion, _ = plan_counted_deletion(self.verb.snapshot, nothing, nothing, [])
        written = WrittenChanges(adds=nothing, marked=nothing)
        return RowChanges(deletion=deletion, written=written, metrics={})

    def _write_updates(self, writer: RowWriter, files: UncommittedFiles) -> None:
        """Write the changed rows; rows of clauses with the same columns together."""
        groups: dict[tuple[str, ...], list[NumberedClause]] = defaultdict(list)
        for clause in self.plan.updates:
            if self.run.rows.get(clause.number):
                groups[self.plan.updated_columns(clause)].append(clause)
        if not groups:
            return
        changed, count = self._changed_rows(), 0
        for names, clauses in groups.items():
            numbers = [clause.number for clause in clauses]
            rows = changed.where(f.col(CLAUSE).isin(*numbers))
            values = [self._value(name, clauses).alias(name) for name in names]
            enforcement = writer.plan(rows.select(*values), is_update=True)
            rows = rows.select(*values, *row_ids(self.run))
            written = writer.write(rows, enforcement, keeps_ids=True)
            count += written.rows
            self.updated_files.append((files.add(written.adds), enforcement))
        check_count("changed rows", count, self._rows("update"))

    def _changed_rows(self) -> DataFrame:
        """Return the rows that updates change, with the columns that they keep."""
        plan, changed = self.plan, self.matches.changed
        if not plan.missing_columns and not self.run.tracking.is_enabled:
            return changed
        old = self.run.old_rows(plan.missing_columns, {c.number for c in plan.updates})
        return changed.join(old.drop(CLAUSE).hint("merge"), [FILE, ROW], "inner")

    def _value(self, name: str, clauses: list[NumberedClause]) -> Any:
        """Return the new value of a column, or the old one for clauses that keep it."""
        plan = self.plan
        if name not in plan.missing_columns:
            return f.col(quoted(value_name(name)))
        kept = [clause.number for clause in clauses if plan.keeps(clause, name)]
        old = f.col(quoted(name)).cast(plan.kinds[name].dataType)
        if len(kept) == len(clauses):
            return old
        new = f.col(quoted(value_name(name)))
        return f.when(f.col(CLAUSE).isin(*kept), old).otherwise(new) if kept else new

    def _write_inserts(self, writer: RowWriter, files: UncommittedFiles) -> None:
        groups: dict[tuple[str, ...], list[NumberedClause]] = defaultdict(list)
        for clause in self.plan.of_kind("not_matched"):
            groups[tuple(clause.tree)].append(clause)
        for clauses in groups.values():
            source = self.matches.inserted()
            frames = [
                source.where(f.col(CLAUSE) == clause.number).select(
                    *self.plan.inserted_values(source, clause), SOURCE_ROW
                )
                for clause in clauses
            ]
            rows = frames[0]
            for frame in frames[1:]:
                rows = rows.unionAll(frame)
            enforcement = writer.plan(rows.drop(SOURCE_ROW), is_update=False)
            numbers = None
            if enforcement.generates_identity:
                numbers = SourceNumbers.of(self.matches.source)
            else:
                rows = rows.drop(SOURCE_ROW)
            written = writer.write(rows, enforcement, numbers=numbers)
            self.inserted += written.rows
            both = (self.high_water_marks, written.high_water_marks)
            self.high_water_marks = furthest_values(enforcement.identity, both)
            self.inserted_files.append((files.add(written.adds), enforcement))

    def _with_changes(
        self, written: WrittenChanges, writer: RowWriter, files: UncommittedFiles
    ) -> WrittenChanges:
        """Write change files if the table has a change feed, and the files alone do not tell."""
        run = self.run
        if not run.touched.num_rows or not has_change_feed(self.verb.snapshot):
            return written
        names = {"update": "update_preimage", "delete": "delete"}
        kinds = {
            c.number: names[c.clause.action] for c in self.plan.clauses if c.number in run.rows
        }
        tables = [files.add(run.write_changes(kinds))]
        for adds, enforcement in self.updated_files:
            tables.append(files.add(writer.write_changes(adds, enforcement, "update_postimage")))
        for adds, enforcement in self.inserted_files:
            tables.append(files.add(writer.write_changes(adds, enforcement, "insert")))
        return replace(written, changes=pa.concat_tables(tables))

    def _definition(self) -> dict[str, Any]:
        """Return the table's new protocol and metadata; None where they do not change."""
        snapshot, after = self.verb.snapshot, self.plan.definition
        metadata = after.metadata
        if self.inserted_files:
            _, enforcement = self.inserted_files[0]
            metadata = enforcement.advanced_metadata(self.high_water_marks)
        return {
            "protocol": None if after.protocol == snapshot.protocol else after.protocol,
            "metadata": None if metadata == snapshot.metadata else metadata,
        }

    def _rows(self, action: str) -> int:
        clauses = (c for c in self.plan.clauses if c.clause.action == action)
        return sum(self.run.rows.get(clause.number, 0) for clause in clauses)

    def _metrics(self) -> dict[str, int]:
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for numbered in self.plan.clauses:
            clause = numbered.clause
            counts[clause.kind, clause.action] += self.run.rows.get(numbered.number, 0)
        return merge_metrics(counts, self.matches.num_source_rows, self.inserted)
