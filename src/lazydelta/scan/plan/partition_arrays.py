"""Partition values of planned files as columns: as strings of the log, and typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, string_scalar, to_numpy, true_mask
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
    return {field.name: _looked_up(values, physical_name(field, mode)) for field in fields}


def _looked_up(values: pa.MapArray, key: str) -> pa.Array:
    """Return the values of a key; several times faster where all maps have the same keys."""
    count, scalar = len(values), string_scalar(key)
    offsets = to_numpy(values.offsets)
    width = int(offsets[1] - offsets[0]) if count else 0
    if width and not values.null_count and (np.diff(offsets) == width).all():
        start = int(offsets[0])
        is_key = true_mask(pc.equal(values.keys.slice(start, count * width), scalar))
        places = is_key.reshape(count, width)
        number = int(places[0].argmax())
        if places[:, number].all() and np.count_nonzero(is_key) == count:
            items = values.items.slice(start, count * width)
            return items if width == 1 else items.take(from_numpy(np.flatnonzero(is_key)))
    return pc.map_lookup(values, scalar, "first")


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
