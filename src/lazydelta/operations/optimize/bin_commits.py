"""Rewrite bins and commit them batch by batch.

A batch is one commit, so that a crash or a conflict costs at most one batch. Concurrent appends
never conflict. After a concurrent commit that touched input files, the other bins of the batch are
committed as they are, and the touched ones are rewritten from their present state.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import ConcurrentDeleteDeleteError, ConcurrentDeleteReadError
from lazydelta.operations.dml.row_deletion import removes_of
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.bins import Bin, batched
from lazydelta.operations.optimize.candidates import file_identities, live_paths
from lazydelta.operations.optimize.file_metrics import RewriteTotals
from lazydelta.operations.optimize.request import OptimizeResult
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import ADDS, Transaction, commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lazydelta.snapshot import SnapshotState

__all__ = ["Run"]

logger = logging.getLogger(__name__)

_TOUCHED = (ConcurrentDeleteDeleteError, ConcurrentDeleteReadError)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A bin with its new files."""

    bin: Bin
    adds: pa.Table


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of OPTIMIZE or REORG."""

    operation: str
    parameters: Mapping[str, Any]
    user_metadata: Mapping[str, Any]
    rewrite: Callable[[SnapshotState, Sequence[Bin], UncommittedFiles], Iterator[pa.Table]]
    """Yields the add actions of each bin, in their order, and records their files."""
    batch_bytes: int
    remember: Callable[[SnapshotState | None], None]
    progress: Callable[[int], None] | None = None
    """Receives the number of input files of each rewritten bin."""
    totals: RewriteTotals = field(default_factory=RewriteTotals)
    versions: list[int] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def run(self, snapshot: SnapshotState, bins: Iterable[Bin]) -> OptimizeResult:
        """Rewrite and commit bins; those of one batch are in memory.

        Args:
            snapshot: The version that the bins are of.
            bins: What to rewrite.
        """
        work = [(snapshot, bins)]
        while work:
            base, waiting = work.pop(0)
            touched: list[Bin] = []
            for batch in batched(waiting, self.batch_bytes):
                touched += self._batch(base, batch)
            if touched:
                newest = load_snapshot(base.store, base.config)
                work.append((newest, self._renewed(newest, touched)))
        return OptimizeResult(
            table=snapshot.store.root,
            version=max(self.versions, default=snapshot.version),
            versions=tuple(self.versions),
            metrics=self.totals.metrics(),
            bins=len(self.totals.sizes),
            warnings=tuple(self.warnings),
        )

    def _batch(self, base: SnapshotState, bins: Sequence[Bin]) -> list[Bin]:
        """Rewrite and commit bins; return those that concurrent commits touched."""
        started = time.monotonic()
        with UncommittedFiles(base.store, None) as files:
            done = []
            for one, adds in zip(bins, self.rewrite(base, bins, files), strict=True):
                done.append(_Rewritten(one, adds))
                if self.progress is not None:
                    self.progress(one.files.num_rows)
            touched = self._commit(base, done, files)
        logger.info(
            "%s of %d bins of %s took %.1f s; %d touched by others",
            self.operation, len(bins), base.store.root, time.monotonic() - started, len(touched),
        )  # fmt: skip
        return touched

    def _commit(
        self, base: SnapshotState, done: Sequence[_Rewritten], files: UncommittedFiles
    ) -> list[Bin]:
        touched: list[Bin] = []
        while done:
            transaction = self._transaction(base, done)
            try:
                result = commit(
                    transaction,
                    store=base.store,
                    config=base.config,
                    base=base,
                    hooks=post_commit_hooks(base.config),
                    observer=files,
                )
            except _TOUCHED as error:
                logger.info("%s of %s: %s", self.operation, base.store.root, error)
                kept = self._untouched(load_snapshot(base.store, base.config), done)
                if len(kept) == len(done):  # removed and added again: all are rewritten
                    kept = []
                touched += [one.bin for one in done if one not in kept]
                done = kept
                continue
            for one in done:
                self.totals.add(one.adds, one.bin.files)
            self.versions.append(result.version)
            self.warnings += result.warnings
            self.remember(result.snapshot)
            return touched
        return touched

    def _transaction(self, base: SnapshotState, done: Sequence[_Rewritten]) -> Transaction:
        adds = pa.concat_tables([one.adds for one in done])
        removed = [one.bin.files for one in done]
        return Transaction(
            operation=self.operation,
            parameters=self.parameters,
            metrics=RewriteTotals.of(adds, removed).metrics(),
            user_metadata=self.user_metadata,
            adds=adds.select(ADDS.names),
            removes=removes_of(list(map(_without_stats, removed)), data_change=False),
            data_change=False,
            keeps_row_ids=RowTracking.of(base).is_enabled,
        )

    @staticmethod
    def _untouched(newest: SnapshotState, done: Sequence[_Rewritten]) -> list[_Rewritten]:
        """Return the bins whose files are all live, with the same deletion vectors."""
        tables = [one.bin.files for one in done]
        live = file_identities(newest, live_paths(newest, tables))
        return [
            one
            for one in done
            if pc.all(pc.is_in(file_identities(newest, one.bin.files), value_set=live)).as_py()
        ]

    def _renewed(self, newest: SnapshotState, touched: Sequence[Bin]) -> list[Bin]:
        """Return bins with the present state of their files, if there is still work to do."""
        live = live_paths(newest, [one.files for one in touched])
        keys = newest.resolver.keys(live.column("path").combine_chunks())
        renewed = []
        for one in touched:
            paths = newest.resolver.keys(one.files.column("path").combine_chunks())
            files = live.filter(pc.is_in(keys, value_set=paths)).combine_chunks()
            fresh = replace(one, files=files, round=one.round + 1)
            if fresh.round >= tuning.MAX_ROUNDS:
                self.warnings.append(
                    f"{files.num_rows} files were left for a later run: concurrent commits "
                    f"changed them {fresh.round} times, for example {_first_path(one.files)}"
                )
            elif files.num_rows and fresh.is_useful:
                renewed.append(fresh)
        return renewed


def _without_stats(files: pa.Table) -> pa.Table:
    return files.append_column("stats", pa.nulls(files.num_rows, pa.string()))


def _first_path(files: pa.Table) -> str:
    return str(files.column("path")[0].as_py())
