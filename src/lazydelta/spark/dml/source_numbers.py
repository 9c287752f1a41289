"""Numbers of source rows, from which a MERGE generates the values of identity columns.

A row of the source keeps its number when a task is repeated or runs twice, because the source is
materialized once. So its identity values are the same in every attempt. Source rows that are not
inserted leave gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as f

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.spark.dml.frame_columns import SOURCE_ROW
from lazydelta.spark.spark_releases import collect_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["SourceNumbers"]

_PARTITION_BITS = 33
"""`monotonically_increasing_id` has the partition above these bits, the row below."""
_ROWS = (1 << _PARTITION_BITS) - 1


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """Number of source rows in the partitions before each partition; it can be pickled."""

    partitions: np.ndarray[Any, Any]
    first: np.ndarray[Any, Any]

    @classmethod
    def of(cls, source: DataFrame) -> SourceNumbers:
        """Count the rows of the partitions of a source with `SOURCE_ROW`."""
        partition = f.expr(f"shiftright({SOURCE_ROW}, {_PARTITION_BITS})").alias("partition")
        counted = collect_arrow(source.groupBy(partition).count()).sort_by("partition")
        counts = counted.column("count").to_numpy()
        return cls(counted.column("partition").to_numpy(), np.cumsum(counts) - counts)

    def converted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows whose last column, `SOURCE_ROW`, is their number in the source."""
        ids = to_numpy(rows.column(-1))
        places = np.searchsorted(self.partitions, ids >> _PARTITION_BITS)
        numbers = from_numpy(self.first[places] + (ids & _ROWS))
        last = rows.num_columns - 1
        return rows.set_column(last, rows.schema.field(last), numbers)
