"""OPTIMIZE: compact small files, and files with many deleted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from lazydelta.log import LOG_DIRECTORY
from lazydelta.operations.dml.table_rules import refuse_row_tracking
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.bin_commits import Run
from lazydelta.operations.optimize.bins import pack, within
from lazydelta.operations.optimize.candidates import live_files, may_rewrite, partition_predicate
from lazydelta.operations.optimize.file_metrics import file_metrics
from lazydelta.operations.optimize.request import OptimizeResult
from lazydelta.operations.optimize.rewriting import Rewriter
from lazydelta.protocol.features import unsupported_error, unwritable_features
from lazydelta.snapshot import load_snapshot
from lazydelta.store import check_writable
from lazydelta.transaction import check_user_metadata, validate_newest_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.config import Config
    from lazydelta.expressions import Predicate
    from lazydelta.operations.optimize.bins import Bin
    from lazydelta.operations.optimize.request import OptimizeRequest
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["optimize_table"]


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
    check_user_metadata(request.commit_metadata, store.root)
    snapshot = load_snapshot(store, config, previous=known)
    _check_writable(snapshot)
    predicate = partition_predicate(snapshot, request.where)
    rewriter = Rewriter.of(snapshot, config, request.target_size)
    target = rewriter.layout.target_file_bytes
    min_size = request.min_file_size
    min_size = int(target * tuning.MIN_SIZE_SHARE) if min_size is None else min_size
    files = may_rewrite(live_files(snapshot, predicate), min_size)
    bins = [one for one in pack(snapshot, files, target) if one.is_useful]
    bins = within(bins, request.max_bytes)
    if request.dry_run or not bins:
        return _nothing(snapshot, bins, dry_run=request.dry_run)
    run = Run(
        operation="OPTIMIZE",
        parameters={
            "predicate": _predicates(predicate),
            "zOrderBy": "[]",
            "clusterBy": "[]",
            "auto": "false",
        },
        user_metadata=request.commit_metadata,
        rewriter=rewriter,
        batch_bytes=request.batch_bytes or tuning.BATCH_BYTES,
        remember=remember,
    )
    return run.run(snapshot, bins)


def _check_writable(snapshot: SnapshotState) -> None:
    store = snapshot.store
    if features := unwritable_features(snapshot.protocol):
        raise unsupported_error(store.root, features, "write")
    refuse_row_tracking(snapshot, "OPTIMIZE", "optimize the table with Spark")
    validate_newest_commit(snapshot)
    check_writable(store, LOG_DIRECTORY)


def _nothing(snapshot: SnapshotState, bins: Sequence[Bin], *, dry_run: bool) -> OptimizeResult:
    return OptimizeResult(
        table=snapshot.store.root,
        version=snapshot.version,
        metrics=file_metrics([], [one.files for one in bins]),
        dry_run=dry_run,
    )


def _predicates(predicate: Predicate | None) -> str:
    return orjson.dumps([] if predicate is None else [str(predicate)]).decode()
