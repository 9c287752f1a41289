"""`DeltaTable.optimize()`: compaction and Z-ordering, optionally of some partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lazydelta.spark.delta_api.arguments import as_condition, as_names
from lazydelta.spark.maintenance import optimize
from lazydelta.spark.result_frames import optimize_frame
from lazydelta.spark.spark_errors import with_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaOptimizeBuilder"]


@with_spark_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOptimizeBuilder:
    """An OPTIMIZE under construction."""

    spark: SparkSession
    url: str
    filter: str | None = None

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:  # noqa: N803 - Delta's name
        """Select partitions by a condition on partition columns."""
        return replace(self, filter=as_condition(partitionFilter, "partitionFilter"))

    def executeCompaction(self) -> DataFrame:  # noqa: N802
        """Rewrite small files of each partition into larger ones."""
        result = optimize(self.spark, self.url, self.filter)
        return optimize_frame(self.spark, result)

    def executeZOrderBy(self, *cols: Any) -> DataFrame:  # noqa: N802
        """Sort the rows of the files along a Z-order curve of these columns."""
        names = as_names(cols, "Z-order column")
        result = optimize(self.spark, self.url, self.filter, z_order=names)
        return optimize_frame(self.spark, result, is_z_order=True)
