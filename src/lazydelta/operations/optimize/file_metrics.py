"""`operationMetrics` of OPTIMIZE, under the names of Delta Spark. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from lazydelta._arrow import to_numpy
from lazydelta.operations.dml.row_deletion import total_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

__all__ = ["RewriteTotals"]

_PERCENTILES = {
    "minFileSize": 0,
    "p25FileSize": 25,
    "p50FileSize": 50,
    "p75FileSize": 75,
    "maxFileSize": 100,
}


@dataclass(slots=True)
class RewriteTotals:
    """Totals of rewritten files; of new files only the sizes are kept."""

    sizes: list[np.ndarray] = field(default_factory=list)
    """Sizes of the new files of each bin."""
    removed_files: int = 0
    removed_bytes: int = 0
    removed_vectors: int = 0

    @classmethod
    def of(cls, adds: pa.Table, removed: Iterable[pa.Table]) -> Self:
        """Return the totals of one commit."""
        totals = cls([_sizes(adds)])
        for files in removed:
            totals.remove(files)
        return totals

    def add(self, adds: pa.Table, removed: pa.Table) -> None:
        """Add the new files of a bin, and those that they replace."""
        self.sizes.append(_sizes(adds))
        self.remove(removed)

    def remove(self, files: pa.Table) -> None:
        """Add files that are replaced."""
        self.removed_files += files.num_rows
        self.removed_bytes += total_size(files)
        self.removed_vectors += files.num_rows - files.column("deletionVector").null_count

    def metrics(self) -> dict[str, int]:
        """Return the totals under the names of Delta Spark."""
        sizes = np.concatenate([np.zeros(0, np.int64), *self.sizes])
        metrics = {
            "numAddedFiles": len(sizes),
            "numRemovedFiles": self.removed_files,
            "numAddedBytes": int(sizes.sum()),
            "numRemovedBytes": self.removed_bytes,
            "numDeletionVectorsRemoved": self.removed_vectors,
        }
        if len(sizes):
            for name, percent in _PERCENTILES.items():
                metrics[name] = int(np.percentile(sizes, percent, method="lower"))
        return metrics


def _sizes(files: pa.Table) -> np.ndarray:
    return to_numpy(files.column("size").combine_chunks())
