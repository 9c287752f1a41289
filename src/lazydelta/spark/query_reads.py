"""Queries over attached tables and paths, each read in its newest version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.spark.column_functions import quoted
from lazydelta.spark.read import read
from lazydelta.spark.table_names import TableAddress, find_name, session_time, split_version
from lazydelta.statements import tokens
from lazydelta.statements.spark_statements import common_tables, query_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.statements.spark_statements import QueryTable

__all__ = ["run_query"]


def run_query(
    spark: SparkSession, query: str, args: Mapping[str, Any] | list[Any] | None = None
) -> DataFrame:
    """Return the rows of a query.

    Its tables of this format become common table expressions over DataFrames, which PySpark passes
    as parameters of the query, on Spark Connect too.
    """
    given: dict[str, Any] = {} if args is None else {"args": args}
    frames: dict[str, Any] = {}
    definitions: dict[str, str] = {}
    pieces: list[str] = []
    position = 0
    own = common_tables(query)
    for table in query_tables(query):
        if len(table.parts) == 1 and table.parts[0].lower() in own:
            continue
        address = _address(spark, table)
        if address is None:
            continue
        name, replaced = _common_name(table, len(definitions))
        if name.lower() not in definitions:
            frame = f"lazydelta_{len(definitions)}"
            frames[frame] = read(
                spark, address.url, version=address.version, timestamp=address.timestamp
            )
            definitions[name.lower()] = f"{quoted(name)} AS (SELECT * FROM {{{frame}}})"  # noqa: S608 - our own name
        if replaced is not None:
            pieces += [_escaped(query[position : table.start]), _escaped(replaced)]
            position = table.end
    if not definitions:
        return spark.sql(query, **given)
    text = "".join([*pieces, _escaped(query[position:])])
    return spark.sql(_with_definitions(text, list(definitions.values())), **given, **frames)


def _address(spark: SparkSession, table: QueryTable) -> TableAddress | None:
    if table.path is not None:
        found: TableAddress | None = split_version(table.path)
    else:
        found = find_name(spark, quoted(*table.parts))
    if found is None or (table.version is None and table.timestamp is None):
        return found
    if table.version is not None:
        return TableAddress(url=found.url, version=int(table.version))
    return TableAddress(url=found.url, timestamp=session_time(spark, str(table.timestamp)))


def _common_name(table: QueryTable, number: int) -> tuple[str, str | None]:
    """Return the name of a table's expression, and what replaces the table in the query.

    A plain name stays, and so do its columns qualified by it. Others get a name of their own, and
    the last part of theirs as an alias, as in Spark.
    """
    if len(table.parts) == 1 and table.version is None and table.timestamp is None:
        return table.parts[0], None
    name = f"lazydelta_table_{number}"
    is_named = table.has_alias or table.path is not None
    return name, name if is_named else f"{name} AS {quoted(table.parts[-1])}"


def _with_definitions(query: str, definitions: list[str]) -> str:
    """Return a query with more common table expressions before its own."""
    listed = ", ".join(definitions)
    found = list(tokens(query, "spark"))[:2]
    if not found[0].says("with"):
        return f"WITH {listed} {query}"
    last = found[1] if len(found) > 1 and found[1].says("recursive") else found[0]
    return f"{query[: last.end]} {listed},{query[last.end :]}"


def _escaped(sql: str) -> str:
    """Return SQL without parameters of PySpark, which are in braces."""
    return sql.replace("{", "{{").replace("}", "}}")
