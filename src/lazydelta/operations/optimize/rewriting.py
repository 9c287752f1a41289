"""Copy the rows of a bin into new files, in bounded memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.operations.dml.table_rules import plain_rows
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.cluster_files import tagged
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.scan import Scan
from lazydelta.scan.read import read_files
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.transaction import ADDS
from lazydelta.writer.files import DataLayout, write_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.config import Config
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.clustering import Clustering
    from lazydelta.snapshot import SnapshotState

__all__ = ["Rewriter"]

_FALSE = build_scalar(False, PrimitiveType("boolean"))


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Copies the rows of a bin; several threads may use one."""

    config: Config
    layout: DataLayout
    memory: int
    """Bytes of memory for one bin."""
    clustering: Clustering | None = None

    @classmethod
    def of(
        cls,
        snapshot: SnapshotState,
        config: Config,
        target_size: int | None,
        clustering: Clustering | None = None,
    ) -> Rewriter:
        """Return a rewriter with the layout of a table's data files.

        Args:
            snapshot: The table.
            config: Settings; `operation_memory` is divided among the bins.
            target_size: The size of new files; by default as for writes.
            clustering: How rows are clustered; None keeps their order.
        """
        memory = config.operation_memory // max(_bins_at_once(), tuning.MEMORY_PARTS)
        options = replace(
            config.write,
            target_file_bytes=target_size or config.write.target_file_bytes,
            memory_limit=min(config.write.memory_limit, max(memory // tuning.WRITE_SHARE, 1)),
            files_at_once=1 if clustering is None else None,
        )
        layout = DataLayout.of(
            snapshot.schema,
            snapshot.protocol,
            snapshot.metadata,
            options,
            clustered_by=snapshot.clustering_columns(),
        )
        return cls(config, layout, memory, clustering)

    @property
    def bins_at_once(self) -> int:
        """How many bins are rewritten in parallel; clustering uses the memory of all for one."""
        return _bins_at_once() if self.clustering is None else 1

    def rewrite(self, snapshot: SnapshotState, one: Bin) -> pa.Table:
        """Write the rows of a bin to new files, and return their add actions."""
        tracking = RowTracking.of(snapshot)
        options = replace(
            tracking.read_options(plain_rows(snapshot)),
            memory_limit=max(self.memory // tuning.READ_SHARE, 1),
            files_at_once=1 if self.clustering is None else None,
        )
        layout = tracking.layout(self.layout)
        with read_files(Scan(snapshot), one.files.to_batches(), options=options) as rows:
            ordered: Iterable[pa.RecordBatch] = rows
            if self.clustering is not None:
                ordered = self.clustering.sorted(snapshot, one, rows, options)
            adds = write_data_files(ordered, store=snapshot.store, layout=layout)
        if self.clustering is not None and self.clustering.is_declared:
            adds = tagged(adds, self.clustering.names)
        index = ADDS.get_field_index("dataChange")
        return adds.set_column(index, ADDS.field(index), pa.repeat(_FALSE, adds.num_rows))


def _bins_at_once() -> int:
    """Return how many bins are rewritten in parallel."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(cores, tuning.BINS_AT_ONCE)
