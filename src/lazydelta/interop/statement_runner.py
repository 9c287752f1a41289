"""`sql`: run one statement, a query on an engine or a change of a table's rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.errors import ConfigError, QueryError
from lazydelta.interop.insert_values import constant_values
from lazydelta.interop.statement_tables import StatementTables
from lazydelta.schema import format_path
from lazydelta.statements import (
    Delete,
    Insert,
    Merge,
    Query,
    Subquery,
    TargetNames,
    Update,
    default_of,
    is_default,
    parse_statement,
    table_alias,
    with_clauses,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.interop.query import Engine
    from lazydelta.operations import WriteResult
    from lazydelta.operations.dml import DmlResult
    from lazydelta.statements import TableName

__all__ = ["sql"]


def sql(
    statement: str,
    tables: Mapping[str, Any] | None = None,
    *,
    engine: Engine | None = None,
    storage_options: Mapping[str, Any] | None = None,
    config: Config | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> pa.RecordBatchReader | DmlResult | WriteResult:
    """Run one SQL statement: a query, DELETE, UPDATE, INSERT or MERGE.

    A table is a name of `tables`, or a path or URL in backticks: `` DELETE FROM `./trips` ``.
    Expressions of DELETE, UPDATE, MERGE and VALUES are Spark SQL and run in lazydelta. Queries run
    on an engine, as for `QueryBuilder`, also those inside INSERT and MERGE.

    Args:
        statement: The statement.
        tables: Tables by name: a `Table`, a path or a URL. A snapshot, scan or change feed can be
            read too, and any rows that `Table.merge` accepts can be the source of a MERGE.
        engine: The engine of queries: `duckdb` or `datafusion`; by default the first of the two
            that is installed.
        storage_options: Options of the object store, for tables that are named by an address.
        config: Engine settings, for the same tables.
        app_id: With `app_version`: makes a change of rows idempotent, as for `Table.write`.
        app_version: The version of the application's transaction; it must increase.
        commit_metadata: User metadata for the commit, shown by `history()`.
        dry_run: Whether DELETE, UPDATE or MERGE returns what would happen, and writes nothing.

    Returns:
        The rows of a query as a reader, or the result of the operation.

    Raises:
        QueryError: The statement cannot be parsed, or the engine rejects the query.
        PredicateError: An expression cannot be parsed, or does not fit the schema.
        ConfigError: A table is not known.

    Raises the errors of the operation too: see `Table.delete`, `update`, `write` and `merge`.
    """
    found = StatementTables(
        named={} if tables is None else tables, storage_options=storage_options, config=config
    )
    options = {
        "app_id": app_id,
        "app_version": app_version,
        "commit_metadata": commit_metadata,
    }
    return _Run(statement, found, engine, options, dry_run)()


@dataclass(frozen=True, slots=True)
class _Run:
    """One statement with the tables that it can name."""

    sql: str
    tables: StatementTables
    engine: Engine | None
    options: Mapping[str, Any]
    """Options of the commit."""
    dry_run: bool

    def __call__(self) -> Any:
        match parse_statement(self.sql):
            case Query(sql=query):
                return self.tables.query(query, self.engine)
            case Delete() as delete:
                return self._delete(delete)
            case Update() as update:
                return self._update(update)
            case Insert() as insert:
                return self._insert(insert)
            case Merge() as merge:
                return self._merge(merge)

    def _delete(self, delete: Delete) -> DmlResult:
        table = self.tables.target(delete.target)
        where = TargetNames(table.schema, table_alias(delete.target)).unqualified(delete.where)
        return table.delete(where, **self.options, dry_run=self.dry_run)

    def _update(self, update: Update) -> DmlResult:
        table = self.tables.target(update.target)
        names = TargetNames(table.schema, table_alias(update.target))
        columns = {
            name: names.unqualified(value)
            for name, value in names.assigned(update.assignments).items()
        }
        where = names.unqualified(update.where)
        return table.update(columns, where, **self.options, dry_run=self.dry_run)

    def _insert(self, insert: Insert) -> WriteResult:
        if self.dry_run:
            raise ConfigError("dry_run", "INSERT has none: run its query instead")
        table = self.tables.target(insert.target)
        names = TargetNames(table.schema, table_alias(insert.target))
        static = names.static_partition(insert, table.metadata.partition_columns)
        now = time.time_ns() // 1_000
        constants = {
            name: constant_values([sql], names.schema.find([name])[0], table.url, now=now)[0]
            for name, sql in static.items()
        }
        if insert.query is None:
            rows = self._values(insert, names, table.url, now)
            data: Any = _with_columns(rows.to_reader(), rows.column_names, constants)
        else:
            data = self.tables.query(insert.query, self.engine)
            columns = data.schema.names
            if not insert.by_name:
                columns = [column.name for column in names.inserted(insert, len(columns))]
            data = _with_columns(data, columns, constants)
        where = names.unqualified(insert.replace_where)
        if insert.overwrite and static:
            where = " AND ".join(f"{format_path([name])} <=> {sql}" for name, sql in static.items())
        mode: Any = "append" if where is None and not insert.overwrite else "overwrite"
        return table.write(data, mode, where=where, **self.options)

    def _values(self, insert: Insert, names: TargetNames, table: str, now: int) -> pa.Table:
        """Evaluate VALUES; a column that is DEFAULT in all rows is left to the write."""
        columns = names.inserted(insert, len(insert.rows[0]))
        arrays = {}
        for column, values in zip(columns, zip(*insert.rows, strict=True), strict=True):
            if not all(map(is_default, values)):
                default = default_of(column)
                given = [default if is_default(value) else value for value in values]
                arrays[column.name] = constant_values(given, column, table, now=now)
        if not arrays:
            raise QueryError(self.sql, "lazydelta", "all values are DEFAULT: give one of them")
        return pa.table(arrays)

    def _merge(self, merge: Merge) -> DmlResult:
        target = self.tables.target(merge.target)
        rows, source_alias = self._source(merge.source)
        target_alias = table_alias(merge.target)
        aliases: dict[str, Any] = {"target_alias": target_alias, "source_alias": source_alias}
        builder = target.merge(
            rows,
            merge.on,
            **{name: alias for name, alias in aliases.items() if alias is not None},
            merge_schema=merge.merge_schema,
            **self.options,
            dry_run=self.dry_run,
        )
        return with_clauses(
            builder, merge.clauses, TargetNames(target.schema, target_alias)
        ).execute()

    def _source(self, source: TableName | Subquery) -> tuple[Any, str | None]:
        """Return the rows of a source, and what qualifies their columns."""
        if not isinstance(source, Subquery):
            return self.tables.source(source), table_alias(source)
        rows = self.tables.query(source.sql, self.engine)
        if source.columns is None:
            return rows, source.alias
        if len(rows.schema) != len(source.columns):
            reason = f"it has {len(rows.schema)} values for {len(source.columns)} columns"
            raise QueryError(self.sql, "lazydelta", reason)
        return _with_columns(rows, source.columns, {}), source.alias


def _with_columns(
    reader: pa.RecordBatchReader, names: Sequence[str], constants: Mapping[str, pa.Scalar]
) -> pa.RecordBatchReader:
    """Return the rows of a query under other names of its columns, and constant columns."""
    parts = zip(reader.schema, names, strict=True)
    fields = [part.with_name(name) for part, name in parts]
    schema = pa.schema([*fields, *((name, value.type) for name, value in constants.items())])

    def batches() -> Iterator[pa.RecordBatch]:
        with reader:
            for batch in reader:
                more = [pa.repeat(value, batch.num_rows) for value in constants.values()]
                yield pa.RecordBatch.from_arrays([*batch.columns, *more], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
