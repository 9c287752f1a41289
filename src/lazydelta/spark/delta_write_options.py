"""Options of Delta's writer by name, as arguments of `lazydelta.spark.write`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.config import Config
from lazydelta.errors import ConfigError, TableNotFoundError
from lazydelta.expressions import col
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.serialized_snapshot import open_table_store
from lazydelta.spark.sink_options import SinkOptions
from lazydelta.spark.spark_releases import collect_arrow
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from lazydelta.expressions import Predicate

__all__ = ["delta_arguments"]

_UNSUPPORTED = ("credential", "storageoptionsfile", "path", "checkpointlocation")


def delta_arguments(
    df: DataFrame, url: str, options: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a write request that options stand for.

    Args:
        df: The rows, for `partitionOverwriteMode=dynamic`, which replaces their partitions.
        url: The table's location.
        options: By the names of Delta on Spark; values may be strings, booleans or integers.
        given: The arguments that the caller gave.

    Raises:
        ConfigError: An unknown option, an invalid value, or one that is given twice.
    """
    for name in options:
        if name.lower() in _UNSUPPORTED:
            raise ConfigError(name, "is an argument of write, not an option")
    values = {name: _string(value) for name, value in options.items() if value is not None}
    parsed = SinkOptions.parse({**values, "path": url}, None)
    dynamic = parsed.partition_overwrite_mode == "dynamic"
    request = replace(parsed, partition_overwrite_mode=None).request(overwrite=True)
    names = ("partition_by", "where", "properties", "app_id", "app_version", "commit_metadata")
    found = {name: getattr(request, name) for name in (*names, "schema_mode")}
    found = {name: value for name, value in found.items() if value not in (None, {}, ())}
    twice = [name for name in found if given.get(name) not in (None, {}, ())]
    if twice:
        raise ConfigError(twice[0], "is given as an argument and as an option: give one of them")
    if dynamic and "where" not in found and given.get("where") is None:
        columns = _partition_columns(df, url)
        if columns:
            predicate = partition_predicate(df, columns)
            found["where"] = "false" if predicate is None else predicate
    return {**found, "options": request.options}


def _string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _partition_columns(df: DataFrame, url: str) -> Sequence[str]:
    """Return the partition columns of the table; none if there is no table yet."""
    config = Config.from_env()
    file = storage_options_file(df.sparkSession)
    try:
        return Table(open_table_store(url, None, config, file), config).metadata.partition_columns
    except TableNotFoundError:
        return ()


def partition_predicate(df: DataFrame, columns: Sequence[str]) -> Predicate | None:
    """Return the predicate of the partitions that rows belong to; None without rows."""
    quoted = [_escaped(name) for name in columns]
    found: Predicate | None = None
    for row in collect_arrow(df.select(*quoted).distinct()).to_pylist():
        one = _equal(columns, list(row.values()))
        found = one if found is None else found | one
    return found


def _equal(columns: Sequence[str], values: Sequence[Any]) -> Predicate:
    parts = [
        col(_escaped(name)).is_null() if value is None else col(_escaped(name)) == value
        for name, value in zip(columns, values, strict=True)
    ]
    all_of: Predicate = parts[0]
    for part in parts[1:]:
        all_of &= part
    return all_of


def _escaped(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
