"""Copy the rows of a bin into new files, in bounded memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._memory import release_memory
from lazydelta._parallel import ordered_map
from lazydelta.errors import InternalError
from lazydelta.formats import num_records
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
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.config import Config, ReadOptions
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.clustering import Clustering
    from lazydelta.operations.uncommitted_files import UncommittedFiles
    from lazydelta.snapshot import SnapshotState

__all__ = ["Rewriter", "recorded_rows"]

_FALSE = build_scalar(False, PrimitiveType("boolean"))


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Copies the rows of a bin; several threads may use one."""

    layout: DataLayout
    memory: int
    """Bytes of memory for one bin."""
    threads: int
    """How many bins the memory is divided among."""
    clustering: Clustering | None = None

    @classmethod
    def of(
        cls,
        snapshot: SnapshotState,
        config: Config,
        target_size: int | None,
        clustering: Clustering | None = None,
        *,
        bins_at_once: int | None = None,
    ) -> Rewriter:
        """Return a rewriter with the layout of a table's data files.

        Args:
            snapshot: The table.
            config: Settings; `operation_memory` is divided among the bins.
            target_size: The size of new files; by default as for writes.
            clustering: How rows are clustered; None keeps their order.
            bins_at_once: How many bins a process rewrites in parallel; by default by its cores.
        """
        at_once = _bins_at_once() if bins_at_once is None else bins_at_once
        memory = config.operation_memory // max(at_once, tuning.MEMORY_PARTS)
        options = replace(
            config.write,
            target_file_bytes=target_size or config.write.target_file_bytes,
            memory_limit=min(config.write.memory_limit, max(memory // tuning.WRITE_SHARE, 1)),
            files_at_once=1 if clustering is None or at_once == 1 else None,
        )
        layout = DataLayout.of(
            snapshot.schema,
            snapshot.protocol,
            snapshot.metadata,
            options,
            clustered_by=snapshot.clustering_columns(),
        )
        return cls(layout, memory, at_once, clustering)

    @property
    def bins_at_once(self) -> int:
        """How many bins are rewritten in parallel; clustering uses the memory of all for one."""
        return self.threads if self.clustering is None else 1

    def rewrite_bins(
        self, snapshot: SnapshotState, bins: Sequence[Bin], files: UncommittedFiles
    ) -> Iterator[pa.Table]:
        """Rewrite bins in threads; yield the add actions of each, in their order.

        Args:
            snapshot: The version of the bins.
            bins: What to rewrite.
            files: Records the new files.
        """

        def rewrite(one: Bin) -> pa.Table:
            adds = files.add(self.rewrite(snapshot, one))
            release_memory()
            return adds

        return ordered_map(rewrite, bins, width=self.bins_at_once)

    def rewrite(self, snapshot: SnapshotState, one: Bin) -> pa.Table:
        """Write the rows of a bin to new files, and return their add actions.

        Raises:
            InternalError: The new files do not have as many rows as were read.
        """
        num_read = 0

        def counted(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nonlocal num_read
            for batch in rows:
                num_read += batch.num_rows
                yield batch

        with self.rows(snapshot, one) as rows:
            ordered: Iterable[pa.RecordBatch] = counted(rows)
            if self.clustering is not None:
                options = self.read_options(snapshot)
                ordered = self.clustering.sorted(snapshot, one, ordered, options)
            adds = self.tagged(self.write(snapshot, ordered))
        num_written = recorded_rows(adds)
        if num_written != num_read:
            raise InternalError(f"{num_written:,} of {num_read:,} rows were rewritten")
        return adds

    def rows(self, snapshot: SnapshotState, one: Bin) -> Any:
        """Return a context manager with the rows of a bin, row ids included."""
        options = self.read_options(snapshot)
        return read_files(Scan(snapshot), one.files.to_batches(), options=options)

    def write(self, snapshot: SnapshotState, rows: Iterable[pa.RecordBatch]) -> pa.Table:
        """Write rows in the given order, and return the add actions of their files."""
        layout = RowTracking.of(snapshot).layout(self.layout)
        adds = write_data_files(rows, store=snapshot.store, layout=layout)
        index = ADDS.get_field_index("dataChange")
        return adds.set_column(index, ADDS.field(index), pa.repeat(_FALSE, adds.num_rows))

    def tagged(self, adds: pa.Table) -> pa.Table:
        """Return the files of a bin with the tags of the table's clustering, if that is used."""
        if self.clustering is None or not self.clustering.is_declared:
            return adds
        return tagged(adds, self.clustering.names)

    def read_options(self, snapshot: SnapshotState) -> ReadOptions:
        """Return how the rows of a bin are read."""
        return replace(
            RowTracking.of(snapshot).read_options(plain_rows(snapshot)),
            memory_limit=max(self.memory // tuning.READ_SHARE, 1),
            files_at_once=1 if self.clustering is None or self.threads == 1 else None,
        )


def recorded_rows(adds: pa.Table) -> int:
    """Return the number of rows of new files by their statistics."""
    return pc.sum(num_records(adds.column("stats").combine_chunks())).as_py() or 0


def _bins_at_once() -> int:
    """Return how many bins are rewritten in parallel."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(cores, tuning.BINS_AT_ONCE)
