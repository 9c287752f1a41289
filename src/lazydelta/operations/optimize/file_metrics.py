"""`operationMetrics` of OPTIMIZE, under the names of Delta Spark. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazydelta._arrow import to_numpy
from lazydelta.operations.dml.row_deletion import total_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["file_metrics"]

_PERCENTILES = {
    "minFileSize": 0,
    "p25FileSize": 25,
    "p50FileSize": 50,
    "p75FileSize": 75,
    "maxFileSize": 100,
}


def file_metrics(adds: Sequence[pa.Table], removed: Sequence[pa.Table]) -> dict[str, int]:
    """Return the metrics of one or several commits.

    Args:
        adds: The new files.
        removed: The files they replace.
    """
    sizes = np.concatenate([
        np.zeros(0, np.int64),
        *(to_numpy(table.column("size").combine_chunks()) for table in adds),
    ])  # fmt: skip
    metrics = {
        "numAddedFiles": sum(table.num_rows for table in adds),
        "numRemovedFiles": sum(table.num_rows for table in removed),
        "numAddedBytes": sum(map(total_size, adds)),
        "numRemovedBytes": sum(map(total_size, removed)),
        "numDeletionVectorsRemoved": sum(
            table.num_rows - table.column("deletionVector").null_count for table in removed
        ),
    }
    if len(sizes):
        for name, percent in _PERCENTILES.items():
            metrics[name] = int(np.percentile(sizes, percent, method="lower"))
    return metrics
