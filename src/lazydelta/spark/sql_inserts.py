"""INSERT and CREATE TABLE ... AS SELECT: rows of a query, written by `lazydelta.spark.write`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import ConfigError, QueryError, TableExistsError
from lazydelta.operations import as_schema
from lazydelta.schema import schema_to_json
from lazydelta.spark.arrow_conversion import nullable_type, read_schema
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.conf import is_true
from lazydelta.spark.delta_api import DeltaTable
from lazydelta.spark.delta_write_options import overwrites_dynamically, partition_predicate
from lazydelta.spark.dml.stored_values import NESTED, StoredValues
from lazydelta.spark.query_reads import run_query
from lazydelta.spark.read import to_arrow
from lazydelta.spark.table_names import (
    attach,
    default_location,
    find_name,
    open_table,
    require_names,
    table_exists,
)
from lazydelta.spark.write import write
from lazydelta.statements import TargetNames, default_of, is_default, table_alias
from lazydelta.writer.columns import identity_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.operations import WriteResult
    from lazydelta.scan import Where
    from lazydelta.schema import StructField
    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.delta_api import TableDefinition
    from lazydelta.statements import Insert
    from lazydelta.statements.spark_statements import CreateTable
    from lazydelta.table import Table

__all__ = ["create_table", "inserted_rows"]


def inserted_rows(
    spark: SparkSession, table: Table, insert: Insert, options: Mapping[str, Any]
) -> WriteResult:
    """Write the rows of an INSERT.

    Raises:
        QueryError: There are more or fewer values than columns, or PARTITION names another column.
    """
    snapshot = table.snapshot()
    names = TargetNames(snapshot.schema, table_alias(insert.target))
    static = names.static_partition(insert, snapshot.partition_columns)
    constants = [f.expr(sql).alias(name) for name, sql in static.items()]
    rows = _stored(_rows(spark, names, insert).select("*", *constants), snapshot)
    where: Where = names.unqualified(insert.replace_where)
    is_dynamic = overwrites_dynamically(spark) and len(static) < len(snapshot.partition_columns)
    if insert.overwrite and static and not is_dynamic:
        values = spark.range(1).select(*constants)
        where = partition_predicate(values, list(static))
    mode: Any = "append" if where is None and not insert.overwrite else "overwrite"
    if insert.query is None and identity_columns(snapshot.schema, table.url):
        # Executors cannot number rows; literals fit in this process.
        if insert.overwrite and is_dynamic:
            where = partition_predicate(rows, snapshot.partition_columns)
        return table.write(to_arrow(rows), mode, where=where, **options)
    return write(rows, table.url, mode, where=where, **options)


def _rows(spark: SparkSession, names: TargetNames, insert: Insert) -> DataFrame:
    """Return the rows of the query or VALUES, by column name."""
    if insert.query is not None:
        rows = run_query(spark, insert.query)
        if insert.by_name:
            return rows
        columns = names.inserted(insert, len(rows.columns))
        return rows.toDF(*(column.name for column in columns))
    columns = names.inserted(insert, len(insert.rows[0]))
    given = [
        (column, values)
        for column, values in zip(columns, zip(*insert.rows, strict=True), strict=True)
        if not all(map(is_default, values))
    ]
    if not given:
        raise QueryError("INSERT", "lazydelta", "all values are DEFAULT: give one of them")
    lists = [[_value(column, one) for one in values] for column, values in given]
    listed = ", ".join(f"({', '.join(row)})" for row in zip(*lists, strict=True))
    rows = spark.sql(f"SELECT * FROM VALUES {listed}")  # noqa: S608 - the caller's own SQL
    return rows.toDF(*(column.name for column, _ in given))


def _stored(rows: DataFrame, snapshot: SnapshotState) -> DataFrame:
    """Cast columns of atomic types to those of the table, as Spark's ANSI store assignment does.

    Without ANSI mode a cast may overflow silently, so the types must fit as they are.

    Raises:
        SchemaMismatchError: A value of this type cannot be stored in the column.
    """
    spark = rows.sparkSession
    if not is_true(spark, "spark.sql.ansi.enabled"):
        return rows
    types = {field.name.lower(): field.dataType for field in read_schema(snapshot, None)}
    wanted = t.StructType()
    for field in rows.schema:
        kind = types.get(field.name.lower(), field.dataType)
        if kind != field.dataType and not isinstance(field.dataType, NESTED):
            wanted.add(field.name, kind)
    given = {name: quoted(name) for name in wanted.names}
    stored = StoredValues.of(rows, list(given.values()), snapshot.store.root)
    return rows.withColumns(stored.columns(given, wanted)) if given else rows


def _value(column: StructField, expression: str) -> str:
    return default_of(column) if is_default(expression) else expression


def create_table(spark: SparkSession, statement: CreateTable) -> None:
    """Create or replace a table, with the rows of its query if it has one.

    Raises:
        TableExistsError: The table exists.
        ConfigError: Neither columns nor a query, and no table at the location.
        UnsupportedOperationError: A name on PySpark before 4.0.
    """
    name, url = statement.target.name, statement.location or statement.target.address
    if name is not None:
        require_names()
    if url is None and name is not None:
        known = find_name(spark, name)
        url = default_location(spark, name) if known is None else known.url
    url = str(url)
    rows = None if statement.query is None else run_query(spark, statement.query)
    existed = table_exists(spark, url)
    if rows is None and statement.columns is None:
        if not existed:
            reason = f"there is no table at {url} yet: list its columns, or add AS SELECT ..."
            raise ConfigError("CREATE TABLE", reason)
    elif existed and rows is None and name is not None and statement.mode == "create":
        _check_same(spark, name, url, statement)
    elif rows is not None and not (existed or statement.cluster_by or statement.mode == "replace"):
        _write_new(rows, url, statement)
    else:
        _definition(spark, statement, url, rows).execute()
        if rows is not None and not (existed and statement.mode == "createIfNotExists"):
            write(rows, url)  # a commit of its own
        return
    if name is not None:
        attach(spark, {name: url})


def _check_same(spark: SparkSession, name: str, url: str, statement: CreateTable) -> None:
    """Check that an existing table may get a name, as in Delta Spark: its columns are listed.

    Raises:
        TableExistsError: The name is taken, or the table has other columns.
    """
    columns = as_schema(statement.columns or "", where=url)
    found = open_table(spark, url).schema
    same = [(f.name, f.type) for f in columns] == [(f.name, f.type) for f in found]
    if find_name(spark, name) is not None or not same:
        raise TableExistsError(url)


def _write_new(rows: DataFrame, url: str, statement: CreateTable) -> None:
    """Create a table with the rows of a query, in one commit."""
    write(
        rows,
        url,
        "error",
        partition_by=statement.partition_by,
        properties=statement.properties,
        description=statement.comment,
    )


def _definition(
    spark: SparkSession, statement: CreateTable, url: str, rows: DataFrame | None
) -> TableDefinition:
    builder: TableDefinition = getattr(DeltaTable, statement.mode)(spark).location(url)
    if statement.target.name is not None:
        builder.tableName(statement.target.name)
    if statement.columns is not None:
        builder.add_schema(schema_to_json(as_schema(statement.columns, where=url)))
    elif rows is not None:
        builder.add_schema(nullable_type(rows.schema).json())
    for key, value in statement.properties.items():
        builder.property(key, value)
    if statement.comment is not None:
        builder.comment(statement.comment)
    builder.partitionedBy(*statement.partition_by)
    return builder.clusterBy(*statement.cluster_by)
