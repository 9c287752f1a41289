"""Where OPTIMIZE does its work: in this process, or where a caller's implementation does it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lazydelta.operations.optimize.bins import within
from lazydelta.operations.optimize.candidates import live_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.clustering import Clustering
    from lazydelta.operations.optimize.file_selection import Selection
    from lazydelta.operations.optimize.rewriting import Rewriter
    from lazydelta.operations.uncommitted_files import UncommittedFiles
    from lazydelta.snapshot import SnapshotState

__all__ = ["LocalWorkers", "SelectedBins", "Workers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedBins:
    """What a run rewrites."""

    bins: Iterable[Bin]
    depths: Mapping[str, float] = field(default_factory=dict)
    """For a clustering: the overlap depth of each column."""


class Workers(Protocol):
    """Selects and rewrites files."""

    bins_at_once: int | None
    """How many bins a process rewrites in parallel; None is by its cores."""
    batch_bytes: int | None
    """Input of one commit; None is the default of a process."""

    def select(
        self,
        snapshot: SnapshotState,
        predicate: Predicate | None,
        selection: Selection,
        max_bytes: int | None,
    ) -> SelectedBins:
        """Return the bins to rewrite with at most so many bytes."""

    def depths(
        self, snapshot: SnapshotState, predicate: Predicate | None, clustering: Clustering
    ) -> Mapping[str, float]:
        """Return the overlap depth of each clustering column."""

    def rewrite(
        self,
        rewriter: Rewriter,
        snapshot: SnapshotState,
        bins: Sequence[Bin],
        files: UncommittedFiles,
    ) -> Iterator[pa.Table]:
        """Yield the add actions of each bin, in their order, and record their files."""


class LocalWorkers:
    """Threads of this process."""

    bins_at_once: int | None = None
    batch_bytes: int | None = None

    def select(
        self,
        snapshot: SnapshotState,
        predicate: Predicate | None,
        selection: Selection,
        max_bytes: int | None,
    ) -> SelectedBins:
        """Return the bins of the live files."""
        clustering = selection.clustering
        files = live_files(snapshot, predicate, stats=clustering is not None)
        files = selection.candidates(snapshot, files)
        depths = {} if clustering is None else clustering.depths(snapshot, files)
        bins = selection.bins(snapshot, files)
        return SelectedBins(bins=within(bins, max_bytes), depths=depths)

    def depths(
        self, snapshot: SnapshotState, predicate: Predicate | None, clustering: Clustering
    ) -> Mapping[str, float]:
        """Return the overlap depths of the live files."""
        files = live_files(snapshot, predicate, stats=True)
        return clustering.depths(snapshot, clustering.with_bounds(snapshot, files))

    def rewrite(
        self,
        rewriter: Rewriter,
        snapshot: SnapshotState,
        bins: Sequence[Bin],
        files: UncommittedFiles,
    ) -> Iterator[pa.Table]:
        """Rewrite bins in threads."""
        return rewriter.rewrite_bins(snapshot, bins, files)
