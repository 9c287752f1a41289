"""Single values of a table: literals, partition values, and Arrow arrays built from them."""

from __future__ import annotations

from lazydelta.schema.values.arrays import build_array, build_scalar
from lazydelta.schema.values.literals import (
    INTEGER_RANGES,
    format_date,
    format_timestamp,
    parse_value,
    to_days,
    to_micros,
)
from lazydelta.schema.values.partition_values import (
    format_partition_value,
    parse_partition_values,
    unreadable_partition_values,
)

__all__ = [
    "INTEGER_RANGES",
    "build_array",
    "build_scalar",
    "format_date",
    "format_partition_value",
    "format_timestamp",
    "parse_partition_values",
    "parse_value",
    "to_days",
    "to_micros",
    "unreadable_partition_values",
]
