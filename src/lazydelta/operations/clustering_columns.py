"""Clustering columns of a table: validation, and the metadata domain that declares them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from lazydelta.errors import ConfigError
from lazydelta.protocol import DomainMetadata
from lazydelta.protocol.features import with_features
from lazydelta.schema import ArrayType, MapType, PrimitiveType, StructType, format_path
from lazydelta.schema.mapping import physical_name, physical_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.protocol import TableProtocol
    from lazydelta.schema import DataType

__all__ = ["check_columns", "clustered_protocol", "clustering_domain", "logical_paths"]

_DOMAIN = "delta.clustering"
_UNORDERED = ("variant", "void", "binary")
_MAX_COLUMNS = 4  # as in Delta Spark: each further one makes all of them less selective


def check_columns(
    schema: StructType,
    partition_columns: Sequence[str],
    columns: Sequence[str | Sequence[str]],
    *,
    setting: str,
) -> tuple[tuple[str, ...], ...]:
    """Return the logical paths of columns to cluster by.

    Args:
        schema: The table's schema.
        partition_columns: Its partition columns.
        columns: Names, `a.b` for fields of structs, or paths.
        setting: The argument, for errors.

    Raises:
        ConfigError: Too many columns, one twice, a partition column, or a type without an order.
        ColumnNotFoundError: There is no such column.
    """
    paths = [_check_column(schema, partition_columns, column, setting) for column in columns]
    if len(set(paths)) < len(paths):
        raise ConfigError(setting, "names a column twice")
    if len(paths) > _MAX_COLUMNS:
        raise ConfigError(setting, f"has {len(paths)} columns; {_MAX_COLUMNS} are allowed")
    return tuple(paths)


def _check_column(
    schema: StructType, partition_columns: Sequence[str], column: str | Sequence[str], setting: str
) -> tuple[str, ...]:
    given = (column,) if isinstance(column, str) else tuple(column)
    if len(given) == 1 and schema.get(given[0]) is None:
        given = tuple(given[0].split("."))
    fields = schema.find(given)
    path, kind = tuple(field.name for field in fields), fields[-1].type
    if isinstance(kind, ArrayType | MapType | StructType) or (
        isinstance(kind, PrimitiveType) and kind.name in _UNORDERED
    ):
        raise ConfigError(setting, f"{format_path(path)} has the type {kind}, without an order")
    if path[0] in partition_columns:
        reason = f"{format_path(path)} is a partition column, which is constant in each file"
        raise ConfigError(setting, reason)
    return path


def clustering_domain(
    schema: StructType, paths: Sequence[tuple[str, ...]], mode: str
) -> DomainMetadata:
    """Return the metadata domain that declares clustering columns, as Delta Spark writes it."""
    columns = [list(physical_path(schema, path, mode)) for path in paths]
    configuration = {"clusteringColumns": columns, "domainName": _DOMAIN}
    return DomainMetadata(domain=_DOMAIN, configuration=orjson.dumps(configuration).decode())


def clustered_protocol(protocol: TableProtocol) -> TableProtocol:
    """Return the protocol of a table with clustering columns."""
    return with_features(protocol, ["clustering"])


def logical_paths(
    schema: StructType, physical: Sequence[tuple[str, ...]], mode: str
) -> tuple[tuple[str, ...], ...]:
    """Return the logical paths of columns; none if one does not exist.

    Damaged metadata only affects the layout of files, so it is no error.
    """
    found = []
    for names in physical:
        kind: DataType = schema
        path = []
        for name in names:
            fields = kind if isinstance(kind, StructType) else ()
            field = next((f for f in fields if physical_name(f, mode) == name), None)
            if field is None:
                return ()
            path.append(field.name)
            kind = field.type
        found.append(tuple(path))
    return tuple(found)
