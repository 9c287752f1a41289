"""Copy the rows of a bin into new files, in bounded memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.operations.dml.table_rules import plain_rows
from lazydelta.operations.optimize import tuning
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.scan import Scan
from lazydelta.scan.read import read_files
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.transaction import ADDS
from lazydelta.writer.files import DataLayout, write_data_files

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.snapshot import SnapshotState

__all__ = ["Rewriter", "bins_at_once"]

_FALSE = build_scalar(False, PrimitiveType("boolean"))


def bins_at_once() -> int:
    """Return how many bins are rewritten in parallel."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(cores, tuning.BINS_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Copies the rows of a bin; several threads may use one."""

    config: Config
    layout: DataLayout
    memory: int
    """Bytes of memory for one bin."""

    @classmethod
    def of(cls, snapshot: SnapshotState, config: Config, target_size: int | None) -> Rewriter:
        """Return a rewriter with the layout of a table's data files.

        Args:
            snapshot: The table.
            config: Settings; `operation_memory` is divided among the bins.
            target_size: The size of new files; by default as for writes.
        """
        memory = config.operation_memory // bins_at_once()
        options = replace(
            config.write,
            target_file_bytes=target_size or config.write.target_file_bytes,
            memory_limit=min(config.write.memory_limit, max(memory // tuning.WRITE_SHARE, 1)),
            files_at_once=1,
        )
        layout = DataLayout.of(
            snapshot.schema,
            snapshot.protocol,
            snapshot.metadata,
            options,
            clustered_by=snapshot.clustering_columns(),
        )
        return cls(config, layout, memory)

    def rewrite(self, snapshot: SnapshotState, one: Bin) -> pa.Table:
        """Write the rows of a bin to new files, and return their add actions."""
        tracking = RowTracking.of(snapshot)
        options = replace(
            tracking.read_options(plain_rows(snapshot)),
            memory_limit=max(self.memory // tuning.READ_SHARE, 1),
            files_at_once=1,
        )
        layout = tracking.layout(self.layout)
        with read_files(Scan(snapshot), one.files.to_batches(), options=options) as rows:
            adds = write_data_files(rows, store=snapshot.store, layout=layout)
        index = ADDS.get_field_index("dataChange")
        return adds.set_column(index, ADDS.field(index), pa.repeat(_FALSE, adds.num_rows))
