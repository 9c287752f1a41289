"""`DeltaTable.merge(...)`: the clauses of a MERGE under construction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from pyspark.errors import PySparkException

from lazydelta.spark.delta_api.arguments import (
    as_assignments,
    as_condition,
    qualifiers,
    without_alias,
)
from lazydelta.spark.delta_write_options import merges_schema
from lazydelta.spark.dml import merge
from lazydelta.spark.result_frames import merge_frame
from lazydelta.spark.spark_errors import with_spark_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from lazydelta.spark.dml import SparkMergeBuilder

    Condition = str | Column | None
    Assignments = Mapping[str, str | Column] | None

__all__ = ["DeltaMergeBuilder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """A method of `SparkMergeBuilder` with its arguments as SQL."""

    method: str
    where: str | None
    columns: Mapping[str, str] | str | None = None

    @property
    def expressions(self) -> list[str]:
        """All SQL of the clause."""
        values = self.columns.values() if isinstance(self.columns, dict) else ()
        return [*values, *(() if self.where is None else (self.where,))]


@with_spark_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaMergeBuilder:
    """A MERGE under construction; each method returns a new builder."""

    spark: SparkSession
    url: str
    source: DataFrame
    on: str
    alias: str | None = None
    clauses: tuple[MergeClause, ...] = ()
    evolves: bool = False

    def whenMatchedUpdate(self, condition: Condition = None, set: Assignments = None) -> Self:  # noqa: A002, N802 - Delta's names
        """Change columns of rows that match a source row."""
        return self._with("when_matched_update", condition, as_assignments(set, "set"))

    def whenMatchedUpdateAll(self, condition: Condition = None) -> Self:  # noqa: N802
        """Change all columns of rows that match a source row."""
        return self._with("when_matched_update", condition, "*")

    def whenMatchedDelete(self, condition: Condition = None) -> Self:  # noqa: N802
        """Delete rows that match a source row."""
        return self._with("when_matched_delete", condition)

    def whenNotMatchedInsert(self, condition: Condition = None, values: Assignments = None) -> Self:  # noqa: N802
        """Insert source rows that match no row."""
        columns = as_assignments(values, "values")
        return self._with("when_not_matched_insert", condition, columns)

    def whenNotMatchedInsertAll(self, condition: Condition = None) -> Self:  # noqa: N802
        """Insert all columns of source rows that match no row."""
        return self._with("when_not_matched_insert", condition, "*")

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self,
        condition: Condition = None,
        set: Assignments = None,  # noqa: A002
    ) -> Self:
        """Change columns of rows that match no source row."""
        columns = as_assignments(set, "set")
        return self._with("when_not_matched_by_source_update", condition, columns)

    def whenNotMatchedBySourceDelete(self, condition: Condition = None) -> Self:  # noqa: N802
        """Delete rows that match no source row."""
        return self._with("when_not_matched_by_source_delete", condition)

    def withSchemaEvolution(self) -> Self:  # noqa: N802
        """Add columns of the source that clauses assign to the table."""
        return replace(self, evolves=True)

    def execute(self) -> DataFrame:
        """Run the MERGE as one new version, and return the numbers of changed rows.

        Raises the errors of `lazydelta.spark.merge(...).execute()`.
        """
        source_alias = self._source_alias()
        target_alias = self.alias or ("target" if source_alias == "t" else "t")
        builder: Any = merge(
            self.spark,
            self.url,
            self.source,
            self.on,
            target_alias=target_alias,
            source_alias=source_alias,
            merge_schema=self.evolves or merges_schema(self.spark),
        )
        for clause in self.clauses:
            builder = self._added(builder, clause, target_alias)
        return merge_frame(self.spark, builder.execute())

    def _added(
        self, builder: SparkMergeBuilder, clause: MergeClause, alias: str
    ) -> SparkMergeBuilder:
        columns = clause.columns
        if isinstance(columns, dict):
            columns = {without_alias(name, alias): value for name, value in columns.items()}
        given = () if columns is None else (columns,)
        built: SparkMergeBuilder = getattr(builder, clause.method)(*given, clause.where)
        return built

    def _with(
        self, method: str, condition: Condition, columns: Mapping[str, str] | str | None = None
    ) -> Self:
        clause = MergeClause(method=method, where=as_condition(condition), columns=columns)
        return replace(self, clauses=(*self.clauses, clause))

    def _source_alias(self) -> str:
        """Return the name that `source.alias(...)` gave: Spark does not expose it."""
        expressions = [self.on, *(sql for clause in self.clauses for sql in clause.expressions)]
        for name in qualifiers(expressions):
            if self.alias is not None and name.lower() == self.alias.lower():
                continue
            try:
                _ = self.source.select(f"`{name}`.*").schema
            except PySparkException:
                continue
            if name.lower() not in map(str.lower, self.source.columns):  # else it is a struct
                return name
        return "source" if self.alias == "s" else "s"
