"""The partition values of planned files as columns: the log's texts, and what they mean.

Knows a version's partition columns and their names in the log; opens nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lazydelta._arrow import string_scalar
from lazydelta.errors import LogCorruptError, SchemaError
from lazydelta.log import LOG_DIRECTORY
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
        snapshot: The version whose columns they are.
        values: `partitionValues` of the files.
        names: The columns that are wanted; those that are no partition columns are left out.

    Raises:
        LogCorruptError: A file has none at all.
        SchemaError: One is not of its column's type.
    """
    return typed_partitions(snapshot, partition_strings(snapshot, values, names))


def partition_strings(
    snapshot: SnapshotState, values: pa.MapArray, names: Collection[str]
) -> dict[str, pa.Array]:
    """Return partition values as the log writes them, by the columns' logical names.

    A column that a file says nothing of is null; a file that says nothing at all is an error, for
    its rows would be shown in a partition that nobody put them in.

    Raises:
        LogCorruptError: A file has none at all.
    """
    mode, partition = snapshot.column_mapping_mode, set(snapshot.partition_columns)
    wanted = [item for item in snapshot.schema if item.name in partition and item.name in names]
    if wanted and values.null_count:
        reason = "an add has no partitionValues, but the table is partitioned"
        raise LogCorruptError(snapshot.store.root, LOG_DIRECTORY, reason, snapshot.version)
    return {
        item.name: pc.map_lookup(values, string_scalar(physical_name(item, mode)), "first")
        for item in wanted
    }


def typed_partitions(snapshot: SnapshotState, texts: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return partition values in the types of their columns.

    Raises:
        SchemaError: One is not of its column's type.
    """
    kinds = {item.name: item.type for item in snapshot.schema}
    found = {}
    for name, values in texts.items():
        try:
            found[name] = parse_partition_values(values, kinds[name])
        except SchemaError as error:
            reason = f"column {name!r}: {error.reason}"
            raise SchemaError(reason, snapshot.store.root) from None
    return found
