"""Which files OPTIMIZE and REORG rewrite, and which of them together. No I/O but footers.

A selection has two steps, so that a cluster can share them: the first considers each file alone,
the second all files of a partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lazydelta._arrow import from_mask, to_mask
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.bins import pack, partition_codes
from lazydelta.operations.optimize.candidates import FILES, may_rewrite
from lazydelta.operations.optimize.cluster_files import files_to_cluster
from lazydelta.operations.optimize.purged_files import to_purge

if TYPE_CHECKING:
    import pyarrow as pa

    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.clustering import Clustering
    from lazydelta.operations.optimize.request import OptimizeRequest
    from lazydelta.snapshot import SnapshotState

__all__ = ["FilesToCluster", "FilesToPurge", "Selection", "SmallFiles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFiles:
    """The files of a compaction."""

    target: int
    min_size: int
    min_files: int
    auto: bool
    clustering: ClassVar[None] = None

    @classmethod
    def of(cls, request: OptimizeRequest, target: int) -> SmallFiles:
        """Return the selection of a request."""
        min_size = request.min_file_size
        return cls(
            target=target,
            min_size=int(target * tuning.MIN_SIZE_SHARE) if min_size is None else min_size,
            min_files=request.min_files,
            auto=request.auto,
        )

    def candidates(self, snapshot: SnapshotState, files: pa.Table) -> pa.Table:
        """Return the files that may be rewritten."""
        del snapshot
        return may_rewrite(files, self.min_size)

    def bins(self, snapshot: SnapshotState, files: pa.Table) -> list[Bin]:
        """Return the bins of all candidates of some partitions."""
        codes = partition_codes(snapshot, files)
        many = np.bincount(codes, minlength=1)[codes] >= self.min_files
        has_vector = to_mask(files.column("deletionVector").combine_chunks().is_valid())
        files = files.filter(from_mask(many | (has_vector & (not self.auto))))
        return [one for one in pack(snapshot, files, self.target) if one.is_useful]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToCluster:
    """The files of a clustering; all rows of a bin are sorted together."""

    clustering: Clustering
    full: bool
    limit: int
    """Bytes that are clustered together."""

    @classmethod
    def of(cls, request: OptimizeRequest, clustering: Clustering) -> FilesToCluster:
        """Return the selection of a request."""
        limit = min(request.max_bytes or tuning.CUBE_BYTES, tuning.CUBE_BYTES)
        return cls(clustering=clustering, full=request.full, limit=limit)

    def candidates(self, snapshot: SnapshotState, files: pa.Table) -> pa.Table:
        """Return all files, with their bounds instead of statistics."""
        return self.clustering.with_bounds(snapshot, files)

    def bins(self, snapshot: SnapshotState, files: pa.Table) -> list[Bin]:
        """Return the bins of all candidates of some partitions."""
        if self.clustering.is_declared and not self.full:
            bounds = self.clustering.bounds(files)
            files = files_to_cluster(files, bounds, self.clustering.names)
        return pack(snapshot, files.select(FILES.names), self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToPurge:
    """The files of a purge."""

    target: int
    clustering: ClassVar[None] = None

    def candidates(self, snapshot: SnapshotState, files: pa.Table) -> pa.Table:
        """Return the files that have something to purge; footers may be read."""
        return to_purge(snapshot, files)

    def bins(self, snapshot: SnapshotState, files: pa.Table) -> list[Bin]:
        """Return the bins of files of some partitions."""
        return pack(snapshot, files, self.target)


Selection = SmallFiles | FilesToCluster | FilesToPurge
