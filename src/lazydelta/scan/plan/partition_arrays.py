"""Partition values of planned files as columns: as strings of the log, and typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import LogCorruptError, SchemaError
from lazydelta.log import LOG_DIRECTORY
from lazydelta.replay.skipping import map_values
from lazydelta.schema.mapping import physical_name
from lazydelta.schema.values import parse_partition_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

    from lazydelta.snapshot import SnapshotState

__all__ = ["partition_columns", "partition_strings", "typed_partitions"]


def partition_columns(
    snapshot: SnapshotState, values: pa.MapArray, names: Collection[str]
) -> dict[str, pa.Array]:
    """Return typed partition values.

    Args:
        snapshot: The version of the files.
        values: `partitionValues` of the files.
        names: The requested columns; those that are no partition columns are ignored.

    Raises:
        LogCorruptError: A file has no `partitionValues`.
        SchemaError: A value does not fit its column's type.
    """
    return typed_partitions(snapshot, partition_strings(snapshot, values, names))


def partition_strings(
    snapshot: SnapshotState, values: pa.MapArray, names: Collection[str]
) -> dict[str, pa.Array]:
    """Return partition values as the strings of the log, by logical column name.

    A missing column is null. A missing map is an error: null values would put the rows into a
    partition that they do not belong to.

    Raises:
        LogCorruptError: A file has no `partitionValues`.
    """
    mode, partition = snapshot.column_mapping_mode, set(snapshot.partition_columns)
    fields = [field for field in snapshot.schema if field.name in partition and field.name in names]
    if fields and values.null_count:
        reason = "an add has no partitionValues, but the table is partitioned"
        raise LogCorruptError(snapshot.store.root, LOG_DIRECTORY, reason, snapshot.version)
    return {field.name: map_values(values, physical_name(field, mode)) for field in fields}


def typed_partitions(
    snapshot: SnapshotState, strings: Mapping[str, pa.Array]
) -> dict[str, pa.Array]:
    """Return partition values in the types of their columns.

    Raises:
        SchemaError: A value does not fit its column's type.
    """
    kinds = {field.name: field.type for field in snapshot.schema}
    typed = {}
    for name, values in strings.items():
        try:
            typed[name] = parse_partition_values(values, kinds[name])
        except SchemaError as error:
            reason = f"column {name!r}: {error.reason}"
            raise SchemaError(reason, snapshot.store.root) from None
    return typed
