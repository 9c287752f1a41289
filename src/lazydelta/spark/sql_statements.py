"""`sql`: Delta's statements for attached tables and paths; anything else is Spark's.

A query reads its tables with `lazydelta.spark.read`, as common table expressions of the same
names: faster than the format, and in the newest schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ArgumentError, ConfigError, QueryError, TableNotFoundError
from lazydelta.spark.delta_api import DeltaTable
from lazydelta.spark.delta_write_options import merges_schema
from lazydelta.spark.dml import delete, merge, update
from lazydelta.spark.maintenance import optimize, purge, restore, vacuum
from lazydelta.spark.query_reads import run_query
from lazydelta.spark.result_frames import (
    changes_frame,
    frame_of,
    merge_frame,
    optimize_frame,
    restore_frame,
    vacuum_frame,
)
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.spark.sql_inserts import create_table, inserted_rows
from lazydelta.spark.table_names import TableAddress, find_name, open_table, split_version
from lazydelta.statements import (
    Delete,
    Insert,
    Merge,
    Subquery,
    TableName,
    TargetNames,
    Update,
    parse_statement,
    table_alias,
    tokens,
    with_clauses,
)
from lazydelta.statements.spark_statements import (
    Alter,
    Convert,
    CreateTable,
    Describe,
    Generate,
    Optimize,
    Restore,
    SetProperties,
    Vacuum,
    parse_maintenance,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sql"]

_CHANGES = ("delete", "update", "insert", "merge")
_QUERIES = ("select", "with", "from", "(", "table")


@raises_spark_errors
def sql(
    spark: SparkSession,
    statement: str,
    args: Mapping[str, Any] | list[Any] | None = None,
    *,
    app_id: str | None = None,
    app_version: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Run one SQL statement; those of Delta Lake run here, everything else in `spark.sql`.

    MERGE, DELETE, UPDATE, INSERT, OPTIMIZE, REORG, VACUUM, RESTORE, DESCRIBE HISTORY and DETAIL,
    GENERATE, CONVERT TO DELTA, CREATE TABLE ... USING delta, and ALTER TABLE work on attached names
    and on `` delta.`path` ``. Queries read the newest version of attached tables and of such paths;
    `VERSION AS OF` and `TIMESTAMP AS OF` select another.

    Args:
        spark: A session, classic or Spark Connect.
        statement: The statement.
        args: Parameters of a query, as for `spark.sql`.
        app_id: With `app_version`: makes a change of rows idempotent.
        app_version: The version of the application's transaction; it must increase.
        commit_metadata: User metadata for the commit of a change of rows.

    Returns:
        The rows of a query, or the metrics of an operation, as Delta Spark shows them.

    Raises:
        QueryError: A statement for an attached table or a path cannot be parsed.
        TableNotFoundError: There is no table at a path.

    Raises the errors of the operations too: see `delete`, `update`, `merge`, `write`.
    """
    options = {"app_id": app_id, "app_version": app_version, "commit_metadata": commit_metadata}
    return _Run(spark, statement, args, options)()


@dataclass(frozen=True, slots=True)
class _Run:
    """One statement on a session."""

    spark: SparkSession
    sql: str
    args: Mapping[str, Any] | list[Any] | None
    options: Mapping[str, Any]
    """Options of the commit."""

    def __call__(self) -> DataFrame:
        if not isinstance(self.sql, str):
            raise ArgumentError("statement", f"must be a string, not {type(self.sql).__name__}")
        first = next(iter(tokens(self.sql, "spark")), None)
        if first is not None and first.says(*_QUERIES):
            return run_query(self.spark, self.sql, self.args)
        try:
            found: Any = parse_maintenance(self.sql)
            if found is None and first is not None and first.says(*_CHANGES):
                found = parse_statement(self.sql)
        except QueryError:
            if self._names_no_table():
                return self._of_spark()
            raise
        return self._of_spark() if found is None else self._run(found)

    def _of_spark(self) -> DataFrame:
        args: Any = self.args
        return self.spark.sql(self.sql) if args is None else self.spark.sql(self.sql, args)

    def _names_no_table(self) -> bool:
        """Whether no name of the statement is a table of ours, so that Spark's error is right."""
        names = [token.name for token in tokens(self.sql, "spark") if token.is_name]
        if not {"delta", "lazydelta"}.isdisjoint(names):
            return False
        return not any(find_name(self.spark, name) for name in [*dict.fromkeys(names)][:20])

    def _run(self, statement: Any) -> DataFrame:
        match statement:
            case Convert():
                table = f"parquet.`{statement.path}`"
                DeltaTable.convertToDelta(self.spark, table, statement.partition_by or None)
                return self._no_rows()
            case CreateTable():
                create_table(self.spark, statement)
                return self._no_rows()
        address = self._address(statement.target)
        if address is None:
            return self._of_spark()
        if address.is_pinned and not isinstance(statement, Describe):
            reason = f"{statement.target.name} is pinned to a version, which can only be read"
            raise ConfigError("table", reason)
        match statement:
            case Delete() | Update() | Insert() | Merge():
                return self._changed(statement, address.url)
            case Describe():
                return self._described(statement, address)
        return self._maintained(statement, address.url)

    # --- changes of rows

    def _changed(self, statement: Any, url: str) -> DataFrame:
        table = open_table(self.spark, url)
        names = TargetNames(table.schema, table_alias(statement.target))
        match statement:
            case Delete():
                where = names.unqualified(statement.where)
                done: Any = delete(self.spark, url, where, **self.options)
            case Update():
                assigned = names.assigned(statement.assignments)
                values = {name: names.unqualified(value) for name, value in assigned.items()}
                where = names.unqualified(statement.where)
                done = update(self.spark, url, values, where, **self.options)
            case Insert():
                done = inserted_rows(self.spark, table, statement, self.options)
            case _:
                return merge_frame(self.spark, self._merged(statement, url, names))
        return changes_frame(self.spark, done)

    def _merged(self, statement: Merge, url: str, names: TargetNames) -> Any:
        source = statement.source
        if isinstance(source, Subquery):
            rows, alias = run_query(self.spark, source.sql), source.alias
            if source.columns is not None:
                rows = rows.toDF(*source.columns)
        else:
            rows, alias = self._rows(source), table_alias(source)
        given: dict[str, Any] = {"target_alias": names.alias, "source_alias": alias}
        builder = merge(
            self.spark,
            url,
            rows,
            statement.on,
            **{name: value for name, value in given.items() if value is not None},
            merge_schema=statement.merge_schema or merges_schema(self.spark),
            **self.options,
        )
        return with_clauses(builder, statement.clauses, names).execute()

    def _rows(self, table: TableName) -> DataFrame:
        """Return the rows of a source: one of our tables, or any name of the session."""
        address = self._address(table)
        if address is None:
            return self.spark.table(table.name or "")
        return DeltaTable(self.spark, address).toDF()

    # --- maintenance

    def _maintained(self, statement: Any, url: str) -> DataFrame:
        spark = self.spark
        match statement:
            case Optimize(purge=True):
                return optimize_frame(spark, purge(spark, url, statement.where))
            case Optimize():
                z_order, full = statement.z_order, statement.full
                done = optimize(spark, url, statement.where, z_order=z_order, full=full)
                return optimize_frame(spark, done, is_z_order=bool(z_order))
            case Vacuum():
                force = DeltaTable.allows_short_retention(spark)
                mode, dry_run = statement.mode, statement.dry_run
                return vacuum_frame(
                    spark, vacuum(spark, url, statement.hours, mode, dry_run=dry_run, force=force)
                )
            case Restore(timestamp=None):
                return restore_frame(spark, restore(spark, url, version=statement.version))
            case Restore():
                return DeltaTable.forPath(spark, url).restoreToTimestamp(str(statement.timestamp))
        return self._done(statement, url)

    def _done(self, statement: SetProperties | Alter | Generate, url: str) -> DataFrame:
        alter = open_table(self.spark, url).alter
        match statement:
            case Generate():
                DeltaTable.forPath(self.spark, url).generate(statement.mode)
            case Alter():
                for method, arguments in statement.steps:
                    getattr(alter, method)(*arguments)
            case SetProperties(unset=()):
                alter.set_properties(statement.properties)
            case SetProperties():
                alter.unset_properties(*statement.unset, missing_ok=statement.if_exists)
        return self._no_rows()

    def _no_rows(self) -> DataFrame:
        return frame_of(self.spark, [], "path string")

    def _described(self, statement: Describe, address: TableAddress) -> DataFrame:
        table = DeltaTable(self.spark, address)
        match statement.what:
            case "history":
                return table.history(statement.limit)
            case "detail":
                return table.detail()
        properties = open_table(self.spark, address.url).metadata.configuration
        rows = sorted(properties.items())
        if statement.key is not None:
            missing = f"Table {address.url} does not have property: {statement.key}"
            rows = [(statement.key, properties.get(statement.key, missing))]
        return frame_of(self.spark, rows, "key string, value string")

    def _address(self, table: TableName) -> TableAddress | None:
        """Return where a table is; None if the name is not one of ours."""
        if table.name is None:
            return split_version(table.address or "")
        found = find_name(self.spark, table.name)
        if found is None and table.address is not None and "/" in table.address:
            try:
                address = split_version(table.address)
                open_table(self.spark, address.url).snapshot(address.version)
            except TableNotFoundError:
                return None
            return address
        return found
