"""Bounds of a column in each file of a batch of add actions, from the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions import nodes
from lazydelta.replay.skipping.file_stats import FileStats, physical_paths
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from lazydelta.expressions.nodes import Column
    from lazydelta.schema import StructType

__all__ = ["ColumnBounds", "file_bounds"]

_LONG = PrimitiveType("long")
_ZERO = build_scalar(0, _LONG)


class ColumnBounds(NamedTuple):
    """Bounds of one column for each file; null is unknown.

    Attributes:
        lower: No value of the file but NaN is less.
        upper: No value of the file but NaN is greater.
        may_have_null: Whether the file may have a null.
    """

    lower: pa.Array
    upper: pa.Array
    may_have_null: pa.Array


def file_bounds(
    adds: pa.RecordBatch, column: Column, schema: StructType, mapping_mode: str
) -> ColumnBounds | None:
    """Return the bounds of a column in files; None for a type without bounds.

    Args:
        adds: Add actions, with a column for each field.
        column: A column bound to the table's schema.
        schema: The table's logical schema.
        mapping_mode: The column mapping mode.
    """
    kind = column.type
    if kind is None or str(kind) in ("boolean", "binary", "variant"):
        return None
    names = ("partition",) if column.is_partition else ("min", "max", "null_count")
    stats = [
        nodes.Stat(name, column.path, _LONG if name == "null_count" else kind) for name in names
    ]
    values = FileStats(adds, physical_paths(stats, schema, mapping_mode))
    if column.is_partition:
        value = values.stat(stats[0])
        return ColumnBounds(value, value, value.is_null())
    lower, upper, nulls = (values.stat(stat) for stat in stats)
    return ColumnBounds(lower, upper, pc.greater(nulls, _ZERO))
