"""OPTIMIZE and REORG: choose files, pack them into bins and rewrite these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from lazydelta._arrow import from_mask, to_mask
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.bin_commits import Run
from lazydelta.operations.optimize.bins import pack, partition_codes, within
from lazydelta.operations.optimize.candidates import (
    FILES,
    live_files,
    may_rewrite,
    partition_predicate,
)
from lazydelta.operations.optimize.cluster_files import files_to_cluster
from lazydelta.operations.optimize.clustering import Clustering
from lazydelta.operations.optimize.file_metrics import file_metrics
from lazydelta.operations.optimize.overlap import FileBounds
from lazydelta.operations.optimize.purged_files import to_purge
from lazydelta.operations.optimize.request import OptimizeResult
from lazydelta.operations.optimize.rewriting import Rewriter
from lazydelta.operations.writable_table import validate_writable
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import check_user_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.expressions import Predicate
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.request import OptimizeRequest
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["optimize_table", "purge_table"]


def optimize_table(
    store: Store,
    config: Config,
    request: OptimizeRequest,
    *,
    known: SnapshotState | None = None,
    remember: Callable[[SnapshotState | None], None] = lambda _: None,
) -> OptimizeResult:
    """Compact the files of a table; no commit if there is nothing to do.

    Args:
        store: The table's store.
        config: Settings of the engine.
        request: The options.
        known: The last snapshot that the caller has of the table; may be outdated.
        remember: Receives the committed snapshot, or None if it is not known.

    Raises:
        TableNotFoundError: There is no table.
        PredicateError: `where` uses a column that is not a partition column.
        CommitConflictError: A concurrent commit changed the table's definition.
        UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
    """
    snapshot = _writable_snapshot(store, config, request, known)
    predicate = partition_predicate(snapshot, request.where)
    clustering = Clustering.of(snapshot, request)
    rewriter = Rewriter.of(snapshot, config, request.target_size, clustering)
    names = [] if clustering is None else clustering.names
    is_declared = clustering is not None and clustering.is_declared
    parameters = {
        "predicate": _predicates(predicate),
        "zOrderBy": orjson.dumps([] if is_declared else names).decode(),
        "clusterBy": orjson.dumps(names if is_declared else []).decode(),
        "auto": "true" if request.auto else "false",
    }
    run = ("OPTIMIZE", parameters, rewriter, remember)
    if clustering is None:
        return _rewritten(
            snapshot, _small_bins(snapshot, predicate, request, rewriter), request, run
        )
    files = live_files(snapshot, predicate, stats=True)
    before = clustering.depths(snapshot, files)
    bins = _cluster_bins(snapshot, files, request, clustering)
    result = _rewritten(snapshot, bins, request, run)
    after = before
    if result.versions:
        newest = load_snapshot(store, config)
        after = clustering.depths(newest, live_files(newest, predicate, stats=True))
    return replace(result, quality={"before": before, "after": after})


def _small_bins(
    snapshot: SnapshotState,
    predicate: Predicate | None,
    request: OptimizeRequest,
    rewriter: Rewriter,
) -> list[Bin]:
    """Return the bins of a compaction."""
    target, min_size = rewriter.layout.target_file_bytes, request.min_file_size
    min_size = int(target * tuning.MIN_SIZE_SHARE) if min_size is None else min_size
    files = may_rewrite(live_files(snapshot, predicate), min_size)
    codes = partition_codes(snapshot, files)
    many = np.bincount(codes, minlength=1)[codes] >= request.min_files
    has_vector = to_mask(files.column("deletionVector").combine_chunks().is_valid())
    files = files.filter(from_mask(many | (has_vector & (not request.auto))))
    return [one for one in pack(snapshot, files, target) if one.is_useful]


def _cluster_bins(
    snapshot: SnapshotState, files: pa.Table, request: OptimizeRequest, clustering: Clustering
) -> list[Bin]:
    """Return the bins of a clustering: all rows of one are sorted together."""
    if clustering.is_declared and not request.full:
        bounds = FileBounds.of(snapshot, files, clustering.paths)
        files = files_to_cluster(files, bounds, clustering.names)
    limit = min(request.max_bytes or tuning.CUBE_BYTES, tuning.CUBE_BYTES)
    return pack(snapshot, files.select(FILES.names), limit)


def purge_table(
    store: Store,
    config: Config,
    request: OptimizeRequest,
    *,
    known: SnapshotState | None = None,
    remember: Callable[[SnapshotState | None], None] = lambda _: None,
) -> OptimizeResult:
    """Rewrite the files with deletion vectors or dropped columns, and no others.

    The arguments and errors are those of `optimize_table`.
    """
    snapshot = _writable_snapshot(store, config, request, known)
    predicate = partition_predicate(snapshot, request.where)
    rewriter = Rewriter.of(snapshot, config, request.target_size)
    files = to_purge(snapshot, live_files(snapshot, predicate))
    bins = pack(snapshot, files, rewriter.layout.target_file_bytes)
    parameters = {"predicate": _predicates(predicate), "applyPurge": "true"}
    return _rewritten(snapshot, bins, request, ("REORG", parameters, rewriter, remember))


def _writable_snapshot(
    store: Store, config: Config, request: OptimizeRequest, known: SnapshotState | None
) -> SnapshotState:
    check_user_metadata(request.commit_metadata, store.root)
    snapshot = load_snapshot(store, config, previous=known)
    validate_writable(snapshot, dry_run=request.dry_run)
    return snapshot


def _rewritten(
    snapshot: SnapshotState,
    bins: Sequence[Bin],
    request: OptimizeRequest,
    run: tuple[str, Mapping[str, Any], Rewriter, Callable[[SnapshotState | None], None]],
) -> OptimizeResult:
    bins = within(bins, request.max_bytes)
    if request.dry_run or not bins:
        return OptimizeResult(
            table=snapshot.store.root,
            version=snapshot.version,
            metrics=file_metrics([], [one.files for one in bins]),
            dry_run=request.dry_run,
        )
    operation, parameters, rewriter, remember = run
    return Run(
        operation=operation,
        parameters=parameters,
        user_metadata=request.commit_metadata,
        rewriter=rewriter,
        batch_bytes=request.batch_bytes or tuning.BATCH_BYTES,
        remember=remember,
        progress=request.progress,
    ).run(snapshot, bins)


def _predicates(predicate: Predicate | None) -> str:
    return orjson.dumps([] if predicate is None else [str(predicate)]).decode()
