"""Options of Delta's writer by name, as arguments of `lazydelta.spark.write`."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, TableNotFoundError
from lazydelta.expressions import col
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.sink_options import SinkOptions
from lazydelta.spark.spark_releases import collect_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.expressions import Predicate
    from lazydelta.operations import WriteRequest
    from lazydelta.scan import Where
    from lazydelta.table import Table

__all__ = [
    "delta_arguments",
    "merges_schema",
    "overwrites_dynamically",
    "partition_predicate",
    "with_session_defaults",
]

_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_UNSUPPORTED = ("credential", "storageoptionsfile", "path", "checkpointlocation")


def delta_arguments(
    url: str, options: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """Return options as arguments of a write request, and the partition overwrite mode.

    Args:
        url: The table's location.
        options: By the names of Delta on Spark; values may be strings, booleans or integers. Names
            that start with `delta.` are properties of a new table.
        given: The arguments that the caller gave.

    Raises:
        ConfigError: An unknown option, an invalid value, or one that is given twice.
    """
    for name in options:
        if name.lower() in _UNSUPPORTED:
            raise ConfigError(name, "is an argument of write, not an option")
    values = {name: _string(value) for name, value in options.items() if value is not None}
    properties = {name: values.pop(name) for name in list(values) if name.startswith("delta.")}
    parsed = SinkOptions.parse({**values, "path": url}, None)
    properties = {**parsed.properties, **properties}
    request = replace(parsed, partition_overwrite_mode=None, properties=properties).request(
        overwrite=True
    )
    names = ("partition_by", "where", "properties", "app_id", "app_version", "commit_metadata")
    found = {name: getattr(request, name) for name in (*names, "schema_mode")}
    found = {name: value for name, value in found.items() if value not in (None, {}, ())}
    twice = [name for name in found if given.get(name) not in (None, {}, ())]
    if twice:
        raise ConfigError(twice[0], "is given as an argument and as an option: give one of them")
    return {**found, "options": request.options}, parsed.partition_overwrite_mode


def with_session_defaults(
    request: WriteRequest, df: DataFrame, table: Table, overwrite_mode: str | None
) -> WriteRequest:
    """Return a request with the session's settings where it has none, as in Delta on Spark.

    Args:
        request: The write.
        df: The rows; a dynamic overwrite replaces their partitions.
        table: The table.
        overwrite_mode: `static` or `dynamic`; None for the session's.
    """
    if request.schema_mode is None and merges_schema(df.sparkSession):
        request = replace(request, schema_mode="merge")
    if request.mode != "overwrite" or request.where is not None:
        return request
    if request.schema_mode == "overwrite":
        return request
    if overwrite_mode == "dynamic" or (
        overwrite_mode is None and overwrites_dynamically(df.sparkSession)
    ):
        columns = _partition_columns(table)
        if columns:
            return replace(request, where=partition_predicate(df, columns))
    return request


def merges_schema(spark: SparkSession) -> bool:
    """Whether writes and MERGE of the session add columns to tables."""
    return str(spark.conf.get(_AUTO_MERGE, "false")).lower() == "true"


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Whether overwrites of the session replace only the partitions of the new rows."""
    return str(spark.conf.get(_OVERWRITE_MODE)).lower() == "dynamic"


def _string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _partition_columns(table: Table) -> Sequence[str]:
    """Return the partition columns of the table; none if there is no table yet."""
    try:
        return table.metadata.partition_columns
    except TableNotFoundError:
        return ()


def partition_predicate(df: DataFrame, columns: Sequence[str]) -> Where:
    """Return the predicate of the partitions that rows belong to."""
    names = [quoted(name) for name in columns]
    rows = collect_arrow(df.select(*names).distinct()).to_pylist()
    return reduce(or_, (_equal(names, row.values()) for row in rows)) if rows else "false"


def _equal(names: Sequence[str], values: Iterable[Any]) -> Predicate:
    pairs = zip(map(col, names), values, strict=True)
    return reduce(and_, (one.is_null() if value is None else one == value for one, value in pairs))
