"""Aggregates answered from file statistics: count, min/max, distinct partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.scan.aggregates.count_min_max import MinMax, count, count_from_log, min_max
    from lazydelta.scan.aggregates.distinct_partitions import partition_values

__all__ = ["MinMax", "count", "count_from_log", "min_max", "partition_values"]

__getattr__ = lazy_exports(
    __name__,
    {
        "count_min_max": ("MinMax", "count", "count_from_log", "min_max"),
        "distinct_partitions": ("partition_values",),
    },
)
