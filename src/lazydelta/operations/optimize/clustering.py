"""The columns that rows are clustered by, and the sort of a bin's rows by them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta.errors import ConfigError
from lazydelta.operations.clustering_columns import check_columns, logical_paths
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.bins import partition_codes
from lazydelta.operations.optimize.candidates import FILES
from lazydelta.operations.optimize.curve_sort import CurveSort, sampled
from lazydelta.operations.optimize.overlap import FileBounds, column_bounds
from lazydelta.operations.optimize.range_ids import CurveRanges
from lazydelta.scan import Scan
from lazydelta.scan.read import read_files
from lazydelta.schema import format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        sample = self.sample(snapshot, self.sample_files(one.files), options)
        if not sample:  # these files have no rows, but others may have some
            yield from rows
            return
        sort = self.curve_sort(
            sample,
            num_bytes=one.size * tuning.EXPANSION,
            bucket_bytes=max(snapshot.config.operation_memory // tuning.BUCKET_SHARE, 1),
        )
        yield from sort.sorted(rows)

    def curve_sort(
        self, sample: Sequence[pa.RecordBatch], *, num_bytes: int, bucket_bytes: int
    ) -> CurveSort:
        """Return the sort of rows of which there is a sample, as `CurveSort.of` does."""
        ranges = CurveRanges.of(sample, self.paths, self.curve)
        return CurveSort.of(ranges, sample, num_bytes=num_bytes, bucket_bytes=bucket_bytes)

    @staticmethod
    def sample_files(files: pa.Table) -> pa.Table:
        """Return evenly spaced files of which rows are sampled."""
        count = min(files.num_rows, tuning.SAMPLE_FILES)
        at = np.linspace(0, files.num_rows - 1, count).astype(np.int64)
        return files.take(from_numpy(np.unique(at)))

    def sample(
        self, snapshot: SnapshotState, files: pa.Table, options: ReadOptions
    ) -> list[pa.RecordBatch]:
        """Return the clustering columns of evenly spaced rows of files."""
        columns = list(dict.fromkeys(path[0] for path in self.paths))
        plain = replace(options, row_id_column=None, row_commit_version_column=None)
        with read_files(Scan(snapshot), files.to_batches(), columns, plain) as batches:
            return [sampled(batch) for batch in batches if batch.num_rows]

    def with_bounds(self, snapshot: SnapshotState, files: pa.Table) -> pa.Table:
        """Return files with their bounds in the columns instead of `stats`, which are larger."""
        batch = pa.RecordBatch.from_struct_array(files.to_struct_array().combine_chunks())
        found = files.select(FILES.names)
        for at, pair in enumerate(column_bounds(snapshot, batch, self.paths)):
            for name, values in zip(("least", "greatest"), pair, strict=True):
                found = found.append_column(f"{name}{at}", values)
        return found

    def bounds(self, files: pa.Table) -> FileBounds:
        """Return the bounds of files `with_bounds`."""
        columns = [
            (
                files.column(f"least{at}").combine_chunks(),
                files.column(f"greatest{at}").combine_chunks(),
            )
            for at in range(len(self.paths))
        ]
        return FileBounds.joined([columns])

    def depths(self, snapshot: SnapshotState, files: pa.Table) -> dict[str, float]:
        """Return the overlap depth of each column, for files `with_bounds`."""
        found = self.bounds(files).depths(partition_codes(snapshot, files))
        return dict(zip(self.names, found, strict=True))
