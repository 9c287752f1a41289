"""OPTIMIZE and REORG: choose files, pack them into bins and rewrite these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.bin_commits import Run
from lazydelta.operations.optimize.candidates import partition_predicate
from lazydelta.operations.optimize.clustering import Clustering
from lazydelta.operations.optimize.file_metrics import RewriteTotals
from lazydelta.operations.optimize.file_selection import FilesToCluster, FilesToPurge, SmallFiles
from lazydelta.operations.optimize.request import OptimizeResult
from lazydelta.operations.optimize.rewriting import Rewriter
from lazydelta.operations.optimize.workers import LocalWorkers
from lazydelta.operations.writable_table import validate_writable
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import check_user_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lazydelta.config import Config
    from lazydelta.expressions import Predicate
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.request import OptimizeRequest
    from lazydelta.operations.optimize.workers import Workers
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
    workers: Workers | None = None,
) -> OptimizeResult:
    """Compact the files of a table; no commit if there is nothing to do.

    Args:
        store: The table's store.
        config: Settings of the engine.
        request: The options.
        known: The last snapshot that the caller has of the table; may be outdated.
        remember: Receives the committed snapshot, or None if it is not known.
        workers: Select and rewrite files; by default threads of this process.

    Raises:
        TableNotFoundError: There is no table.
        PredicateError: `where` uses a column that is not a partition column.
        CommitConflictError: A concurrent commit changed the table's definition.
        UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
    """
    workers = LocalWorkers() if workers is None else workers
    snapshot = _writable_snapshot(store, config, request, known)
    predicate = partition_predicate(snapshot, request.where)
    clustering = Clustering.of(snapshot, request)
    rewriter = Rewriter.of(
        snapshot, config, request.target_size, clustering, bins_at_once=workers.bins_at_once
    )
    names = [] if clustering is None else clustering.names
    is_declared = clustering is not None and clustering.is_declared
    parameters = {
        "predicate": _predicates(predicate),
        "zOrderBy": orjson.dumps([] if is_declared else names).decode(),
        "clusterBy": orjson.dumps(names if is_declared else []).decode(),
        "auto": "true" if request.auto else "false",
    }
    verb = _Verb("OPTIMIZE", parameters, rewriter, request, remember, workers)
    if clustering is None:
        small = SmallFiles.of(request, rewriter.layout.target_file_bytes)
        found = workers.select(snapshot, predicate, small, request.max_bytes)
        return verb.run(snapshot, found.bins)
    to_cluster = FilesToCluster.of(request, clustering)
    found = workers.select(snapshot, predicate, to_cluster, request.max_bytes)
    result = verb.run(snapshot, found.bins)
    after = found.depths
    if result.versions:
        after = workers.depths(load_snapshot(store, config), predicate, clustering)
    return replace(result, quality={"before": found.depths, "after": after})


def purge_table(
    store: Store,
    config: Config,
    request: OptimizeRequest,
    *,
    known: SnapshotState | None = None,
    remember: Callable[[SnapshotState | None], None] = lambda _: None,
    workers: Workers | None = None,
) -> OptimizeResult:
    """Rewrite the files with deletion vectors or dropped columns, and no others.

    The arguments and errors are those of `optimize_table`.
    """
    workers = LocalWorkers() if workers is None else workers
    snapshot = _writable_snapshot(store, config, request, known)
    predicate = partition_predicate(snapshot, request.where)
    rewriter = Rewriter.of(snapshot, config, request.target_size, bins_at_once=workers.bins_at_once)
    parameters = {"predicate": _predicates(predicate), "applyPurge": "true"}
    to_purge = FilesToPurge(target=rewriter.layout.target_file_bytes)
    found = workers.select(snapshot, predicate, to_purge, request.max_bytes)
    verb = _Verb("REORG", parameters, rewriter, request, remember, workers)
    return verb.run(snapshot, found.bins)


def _writable_snapshot(
    store: Store, config: Config, request: OptimizeRequest, known: SnapshotState | None
) -> SnapshotState:
    check_user_metadata(request.commit_metadata, store.root)
    snapshot = load_snapshot(store, config, previous=known)
    validate_writable(snapshot, dry_run=request.dry_run)
    return snapshot


@dataclass(frozen=True, slots=True)
class _Verb:
    """What the commits of a run say, and how its bins are rewritten."""

    operation: str
    parameters: Mapping[str, Any]
    rewriter: Rewriter
    request: OptimizeRequest
    remember: Callable[[SnapshotState | None], None]
    workers: Workers

    def run(self, snapshot: SnapshotState, bins: Iterable[Bin]) -> OptimizeResult:
        request = self.request
        if request.dry_run:
            totals = RewriteTotals()
            for one in bins:
                totals.remove(one.files)
            return OptimizeResult(
                table=snapshot.store.root,
                version=snapshot.version,
                metrics=totals.metrics(),
                dry_run=True,
            )
        return Run(
            operation=self.operation,
            parameters=self.parameters,
            user_metadata=request.commit_metadata,
            rewrite=partial(self.workers.rewrite, self.rewriter),
            batch_bytes=request.batch_bytes or self.workers.batch_bytes or tuning.BATCH_BYTES,
            remember=self.remember,
            progress=request.progress,
        ).run(snapshot, bins)


def _predicates(predicate: Predicate | None) -> str:
    return orjson.dumps([] if predicate is None else [str(predicate)]).decode()
