"""The columns that rows are clustered by, and the sort of a bin's rows by them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lazydelta._arrow import from_numpy
from lazydelta.errors import ConfigError
from lazydelta.operations.clustering_columns import check_columns, logical_paths
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.bins import partition_codes
from lazydelta.operations.optimize.curve_sort import CurveSort, sampled
from lazydelta.operations.optimize.overlap import FileBounds
from lazydelta.operations.optimize.range_ids import CurveRanges
from lazydelta.scan import Scan
from lazydelta.scan.read import read_files
from lazydelta.schema import format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from lazydelta.config import ReadOptions
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.curves import Curve
    from lazydelta.operations.optimize.request import OptimizeRequest
    from lazydelta.snapshot import SnapshotState

__all__ = ["Clustering"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """How rows are clustered."""

    paths: tuple[tuple[str, ...], ...]
    """Logical paths of the columns."""
    curve: Curve
    is_declared: bool
    """Whether these are the table's clustering columns; else those of a Z-order."""

    @property
    def names(self) -> list[str]:
        """The columns as the history and the tags of files have them."""
        return [format_path(path) for path in self.paths]

    @classmethod
    def of(cls, snapshot: SnapshotState, request: OptimizeRequest) -> Clustering | None:
        """Return the requested clustering; None for a compaction.

        Raises:
            ConfigError: The request does not fit the table.
            ColumnNotFoundError: There is no such column.
        """
        declared = logical_paths(
            snapshot.schema, snapshot.clustering_columns(), snapshot.column_mapping_mode
        )
        if request.z_order:
            if declared:
                names = ", ".join(map(format_path, declared))
                reason = f"the table is clustered by {names}; use optimize(cluster=True)"
                raise ConfigError("z_order", reason)
            paths = check_columns(
                snapshot.schema, snapshot.partition_columns, request.z_order, setting="z_order"
            )
            return cls(paths=paths, curve="zorder", is_declared=False)
        if request.cluster and not declared:
            reason = "the table has no clustering columns; set them with table.alter.cluster_by"
            raise ConfigError("cluster", reason)
        if not declared or request.cluster is False:
            return None
        return cls(paths=declared, curve="hilbert", is_declared=True)

    def sorted(
        self,
        snapshot: SnapshotState,
        one: Bin,
        rows: Iterable[pa.RecordBatch],
        options: ReadOptions,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a bin in the order of the curve."""
        sample = self._sample(snapshot, one, options)
        if not sample:
            return
        ranges = CurveRanges.of(sample, self.paths, self.curve)
        sort = CurveSort.of(
            ranges,
            sample,
            num_bytes=one.size * tuning.EXPANSION,
            bucket_bytes=max(snapshot.config.operation_memory // tuning.BUCKET_SHARE, 1),
        )
        yield from sort.sorted(rows)

    def _sample(
        self, snapshot: SnapshotState, one: Bin, options: ReadOptions
    ) -> list[pa.RecordBatch]:
        count = min(one.files.num_rows, tuning.SAMPLE_FILES)
        at = np.linspace(0, one.files.num_rows - 1, count).astype(np.int64)
        files = one.files.take(from_numpy(np.unique(at)))
        columns = list(dict.fromkeys(path[0] for path in self.paths))
        plain = replace(options, row_id_column=None, row_commit_version_column=None)
        with read_files(Scan(snapshot), files.to_batches(), columns, plain) as batches:
            return [sampled(batch) for batch in batches if batch.num_rows]

    def depths(self, snapshot: SnapshotState, files: pa.Table) -> dict[str, float]:
        """Return the overlap depth of each column, for files with `stats`."""
        bounds = FileBounds.of(snapshot, files, self.paths)
        found = bounds.depths(partition_codes(snapshot, files))
        return dict(zip(self.names, found, strict=True))
