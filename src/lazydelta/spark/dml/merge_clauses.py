"""Clauses of a MERGE as Spark columns: conditions, the clause of each row, and new values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import ConfigError
from lazydelta.operations.dml import assignment_tree
from lazydelta.operations.dml.merge import (
    JoinedSchema,
    assigned_columns,
    evolved_definition,
    missing_fields,
    shown_sql,
)
from lazydelta.schema import from_arrow_schema
from lazydelta.spark.arrow_conversion import read_schema
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.dml.frame_columns import CLAUSE
from lazydelta.spark.dml.stored_values import StoredValues, leaves
from lazydelta.spark.session_sql import mentioned_columns
from lazydelta.spark.write_tasks import incoming_schema
from lazydelta.writer.enforcement import GENERATION_EXPRESSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from lazydelta.operations.dml.merge import MergeClause, MergeRequest
    from lazydelta.schema import StructField, StructType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.writer.columns import TableDefinition

__all__ = ["NumberedClause", "SparkClauses", "value_name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedClause:
    """A clause, its number in the request, and the SQL of its assignments."""

    number: int
    clause: MergeClause
    tree: Mapping[str, Any]
    """For each assigned column its SQL, or a mapping of the assigned fields of a struct."""

    @property
    def where(self) -> str | None:
        """The SQL of the condition."""
        return None if self.clause.where is None else shown_sql(self.clause.where)

    @property
    def expressions(self) -> list[str]:
        """All SQL of the clause."""
        return [*([] if self.where is None else [self.where]), *leaves(self.tree)]


@dataclass(frozen=True, kw_only=True)
class SparkClauses:
    """The clauses of a MERGE, planned on a snapshot and the schema of a source."""

    spark: SparkSession
    snapshot: SnapshotState
    request: MergeRequest
    rows: StructType
    """The schema of the source."""
    definition: TableDefinition
    """The table after the operation."""
    clauses: tuple[NumberedClause, ...]

    @classmethod
    def plan(
        cls, spark: SparkSession, snapshot: SnapshotState, source: DataFrame, request: MergeRequest
    ) -> SparkClauses:
        """Plan the clauses; no job starts.

        Raises:
            ConfigError: There is no clause, or two assignments of one column.
            ColumnNotFoundError: An assignment names a column that the table does not have.
            AnalysisException: A condition names a column that neither side has.
        """
        if not request.clauses:
            raise ConfigError("merge", "needs a clause: what to do WHEN rows match, or do not")
        rows = from_arrow_schema(incoming_schema(source.schema, snapshot.store.root))
        definition = evolved_definition(snapshot, request, rows)
        numbered = []
        for number, clause in enumerate(request.clauses):
            tree: dict[str, Any] = {}
            if clause.action != "delete":
                schema = definition.schema
                assigned = assigned_columns(clause, request, schema, rows)
                is_update = clause.action == "update"
                tree = assignment_tree(assigned, schema, is_update=is_update)
            numbered.append(NumberedClause(number=number, clause=clause, tree=tree))
        plan = cls(
            spark=spark,
            snapshot=snapshot,
            request=request,
            rows=rows,
            definition=definition,
            clauses=tuple(numbered),
        )
        plan._resolve_conditions(source)
        return plan

    def _resolve_conditions(self, source: DataFrame) -> None:
        """Let Spark find the columns of all conditions, before it computes the source.

        The rows that are joined later have columns of ours, which Spark's error would suggest.
        """
        schema = read_schema(self.snapshot, None)
        old = self.spark.createDataFrame([], schema).alias(self.request.target_alias)
        new = source.alias(self.request.source_alias)
        both = old.join(new, f.expr(shown_sql(self.request.on)))
        sides = {"matched": both, "not_matched": new, "not_matched_by_source": old}
        for kind, rows in sides.items():
            where = [one.where for one in self.of_kind(kind) if one.where is not None]
            _ = rows.select(*(f.expr(sql).alias(str(n)) for n, sql in enumerate(where))).schema

    def of_kind(self, kind: str) -> list[NumberedClause]:
        """Return the clauses of a kind, in order."""
        return [clause for clause in self.clauses if clause.clause.kind == kind]

    @property
    def updates(self) -> list[NumberedClause]:
        """The clauses that update rows."""
        return [clause for clause in self.clauses if clause.clause.action == "update"]

    @property
    def scope(self) -> JoinedSchema:
        """Both sides, for our own grammar."""
        return JoinedSchema(
            target_alias=self.request.target_alias,
            source_alias=self.request.source_alias,
            target=self.snapshot.schema,
            source=self.rows,
            now=self.request.options.now,
        )

    @cached_property
    def kinds(self) -> t.StructType:
        """Types of the columns of the table after the operation."""
        return read_schema(replace(self.snapshot, schema=self.definition.schema), None)

    @cached_property
    def read_columns(self) -> tuple[str, ...]:
        """Columns of the table that conditions and expressions may read."""
        sql = [shown_sql(self.request.on)]
        partly: set[str] = set()
        for clause in self.clauses:
            if clause.clause.kind != "not_matched":
                sql += clause.expressions
                partly |= {name for name in clause.tree if self._reads_old(clause, name)}
        found = {*mentioned_columns(self.snapshot, sql), *partly}
        return tuple(field.name for field in self.snapshot.schema if field.name in found)

    def _reads_old(self, clause: NumberedClause, name: str) -> bool:
        """Whether the new value of an assigned column may have fields of the old one."""
        if isinstance(clause.tree[name], dict):
            return True
        is_struct = isinstance(self.kinds[name].dataType, t.StructType)
        return is_struct and missing_fields(clause.clause, self.request) == "keep"

    # --- columns over rows of both sides, of the target, or of the source

    def with_clause(self, rows: DataFrame, clauses: Sequence[NumberedClause]) -> DataFrame:
        """Add the number of the first clause that holds for a row; null if none does."""
        number = f.lit(None).cast(t.IntegerType())
        for clause in reversed(clauses):
            value = f.lit(clause.number)
            holds = f.lit(True) if clause.where is None else f.expr(clause.where)
            number = f.when(holds, value).otherwise(number)
        return rows.withColumn(CLAUSE, number)

    def with_values(self, rows: DataFrame, clauses: Sequence[NumberedClause]) -> list[Column]:
        """Return the new values of updated columns, as far as these rows have them.

        They are named by `value_name`, and null where a clause does not assign the column, or the
        rows do not have the old value.
        """
        target = self.request.target_alias
        updates = [clause for clause in clauses if clause.clause.action == "update"]
        sql = [one for clause in updates for one in leaves(clause.tree)]
        stored = replace(StoredValues.of(rows, sql, self.definition.table), old=(target,))
        values = {}
        for one in updates:
            missing = missing_fields(one.clause, self.request)
            values[one.number] = replace(stored, missing=missing).columns(one.tree, self.kinds)
        columns = []
        for name in self.value_columns:
            parts = []
            for number, assigned in values.items():
                value = assigned.get(name)
                if value is None and name in self.read_columns:
                    value = f.col(quoted(target, name)).cast(self.kinds[name].dataType)
                if value is not None:
                    parts.append((number, value))
            columns.append(_by_clause(parts, self.kinds[name].dataType).alias(value_name(name)))
        return columns

    @cached_property
    def value_columns(self) -> tuple[str, ...]:
        """Columns of changed rows whose values are known when rows are matched."""
        assigned = {name for clause in self.updates for name in clause.tree}
        kept = set(self.read_columns) if self.updates else set()
        return tuple(f.name for f in self.definition.schema if f.name in assigned | kept)

    @cached_property
    def missing_columns(self) -> tuple[str, ...]:
        """Columns of old rows that changed rows keep, and that matching does not read."""
        known = set(self.read_columns)
        names = [f.name for f in self.snapshot.schema if f.name not in known]
        return tuple(
            name for name in names if any(self.keeps(clause, name) for clause in self.updates)
        )

    def keeps(self, clause: NumberedClause, name: str) -> bool:
        """Whether rows that a clause updates keep the old value of a column."""
        field = self.snapshot.schema.get(name)
        return field is not None and name not in clause.tree and not _is_generated(field)

    def updated_columns(self, clause: NumberedClause) -> tuple[str, ...]:
        """Return the columns of rows that a clause updates; others are computed."""
        return tuple(
            field.name
            for field in self.definition.schema
            if field.name in clause.tree or self.keeps(clause, field.name)
        )

    def inserted_values(self, source: DataFrame, clause: NumberedClause) -> list[Column]:
        """Return the columns of rows that a clause inserts."""
        stored = StoredValues.of(source, leaves(clause.tree), self.definition.table)
        values = stored.columns(clause.tree, self.kinds)
        return [value.alias(name) for name, value in values.items()]


def value_name(name: str) -> str:
    """Return the name of the new value of a column among matched rows."""
    return f"__lazydelta_new_{name}"


def _is_generated(field: StructField) -> bool:
    return GENERATION_EXPRESSION in field.metadata


def _by_clause(parts: Iterable[tuple[int, Column]], kind: t.DataType) -> Column:
    """Return the value of the clause of each row."""
    nothing = f.lit(None).cast(kind)
    return reduce(
        lambda rest, part: f.when(f.col(CLAUSE) == part[0], part[1]).otherwise(rest), parts, nothing
    )
