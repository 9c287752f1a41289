"""One run of a verb: find matches, write files and vectors, commit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask
from lazydelta._failpoints import failpoint
from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import AppendOnlyError
from lazydelta.expressions import as_predicate, bind
from lazydelta.formats import num_records
from lazydelta.metrics import RowsChanged, notify
from lazydelta.operations.dml.matched_files import find_matches
from lazydelta.operations.dml.rebase import RowRebase
from lazydelta.operations.dml.request import DmlResult
from lazydelta.operations.dml.row_deletion import (
    plan_deletion,
    removes_of,
    total_size,
    write_vectors,
)
from lazydelta.operations.dml.table_rules import plain_rows
from lazydelta.operations.dml.verb_changes import WrittenChanges
from lazydelta.operations.row_tracking import NO_ROW_TRACKING, RowTracking
from lazydelta.operations.writable_table import validate_writable
from lazydelta.operations.write_request import application_transactions, is_applied
from lazydelta.scan import Scan
from lazydelta.scan.read import ChosenRows, read_files
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import Reads, Transaction, check_user_metadata, commit
from lazydelta.writer.files import DataLayout, DeletionVectorWriter, write_data_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lazydelta._stream import Stream
    from lazydelta.config import Config
    from lazydelta.expressions import Predicate
    from lazydelta.operations.dml.matched_files import MatchedFiles
    from lazydelta.operations.dml.request import DmlRequest
    from lazydelta.operations.dml.row_deletion import RowDeletion
    from lazydelta.operations.dml.verb_changes import RowChanges
    from lazydelta.operations.uncommitted_files import UncommittedFiles
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import CommitResult

__all__ = ["Verb", "WrittenChanges", "predicate_sql"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """DELETE, UPDATE or MERGE on the newest version of a table."""

    name: str
    store: Store
    config: Config
    request: DmlRequest
    snapshot: SnapshotState
    predicate: Predicate | None
    remember: Callable[[SnapshotState | None], None]
    metric_names: Mapping[str, str] = field(default_factory=dict)
    """Names of metrics that differ from those of DELETE and UPDATE."""
    reads_unchanged_rows: bool = False
    """Whether the result depends on rows that do not change: MERGE inserts a source row unless one
    matches it."""
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def start(
        cls,
        name: str,
        store: Store,
        config: Config,
        request: DmlRequest,
        *,
        known: SnapshotState | None,
        remember: Callable[[SnapshotState | None], None],
        only_appends: bool = False,
    ) -> Verb | DmlResult:
        """Validate a request; a result if its application transaction is applied already.

        Raises:
            AppendOnlyError: The table is append-only.
            UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
        """
        write = request.as_write()
        check_user_metadata(request.commit_metadata, store.root)
        snapshot = replace(load_snapshot(store, config, previous=known), config=config)
        if is_applied(snapshot, write):
            return DmlResult(table=store.root, version=snapshot.version, already_applied=True)
        if snapshot.properties.append_only and not only_appends:
            raise AppendOnlyError(store.root, name)
        validate_writable(snapshot)
        return cls(
            name=name,
            store=store,
            config=config,
            request=request,
            snapshot=snapshot,
            predicate=as_predicate(request.where, now=request.now),
            remember=remember,
        )

    def matches(self) -> MatchedFiles:
        """Find the matching files and rows."""
        found = find_matches(self.snapshot, self.predicate)
        failpoint("verb-matched")
        return found

    def layout(self) -> DataLayout:
        """Return the layout of new data files."""
        snapshot = self.snapshot
        return DataLayout.of(
            snapshot.schema,
            snapshot.protocol,
            snapshot.metadata,
            self.config.write,
            clustered_by=snapshot.clustering_columns(),
        )

    def matching_rows(
        self, files: pa.Table, tracking: RowTracking = NO_ROW_TRACKING
    ) -> Stream[pa.RecordBatch]:
        """Read the matching rows of files, all columns; with row ids if they are tracked."""
        scan = Scan(self.snapshot, where=self.predicate)
        options = tracking.read_options(plain_rows(self.snapshot))
        return read_files(scan, files.to_batches(), options=options)

    def write_deletion(self, deletion: RowDeletion, files: UncommittedFiles) -> WrittenChanges:
        """Write vectors, and copy the other rows of rewritten files."""
        vectors = DeletionVectorWriter(self.store)
        try:
            marked = write_vectors(self.snapshot, deletion, vectors)
        finally:
            files.add_paths(vectors.paths)
        copied = 0
        adds = deletion.rewritten.slice(0, 0)
        if deletion.rewritten.num_rows:
            tracking = RowTracking.of(self.snapshot)
            positions = dict(
                zip(self._shown(deletion.rewritten), deletion.rewritten_rows, strict=True)
            )
            others = ChosenRows(positions=positions, drops=True)
            with self.chosen_rows(deletion.rewritten, others, tracking=tracking) as rows:
                layout = tracking.layout(self.layout())
                adds = files.add(write_data_files(rows, store=self.store, layout=layout))
            copied = _num_rows(adds)
        return WrittenChanges(adds=adds, marked=marked, copied_rows=copied)

    def chosen_rows(
        self,
        files: pa.Table,
        rows: ChosenRows,
        columns: Sequence[str] | None = None,
        *,
        tracking: RowTracking = NO_ROW_TRACKING,
    ) -> Stream[pa.RecordBatch]:
        """Read some rows of files by their positions; with row ids if they are tracked."""
        options = tracking.read_options(plain_rows(self.snapshot))
        if not rows.drops:
            named = np.array([path in rows.positions for path in self._shown(files)], np.bool_)
            files = files.filter(from_mask(named))
        return read_files(Scan(self.snapshot), files.to_batches(), columns, options, rows=rows)

    def _shown(self, files: pa.Table) -> list[str]:
        """Return the decoded paths of files."""
        paths = self.snapshot.resolver.decoded(files.column("path").combine_chunks())
        decoded: list[str] = paths.to_pylist()
        return decoded

    def would_change(self, metrics: Mapping[str, int | None], matches: MatchedFiles) -> DmlResult:
        """Return the result of a dry run."""
        deletion = plan_deletion(self.snapshot, matches)
        found = self.named({**metrics, **self.file_metrics(deletion)})
        return self.nothing(found, dry_run=True)

    def nothing(self, metrics: Mapping[str, int], *, dry_run: bool = False) -> DmlResult:
        """Return the result of a verb without a commit."""
        result = DmlResult(
            table=self.store.root,
            version=self.snapshot.version,
            metrics=metrics,
            dry_run=dry_run,
        )
        return self._reported(result, committed=False)

    def commit(
        self,
        changes: RowChanges,
        parameters: Mapping[str, str],
        files: UncommittedFiles,
        *,
        again: Callable[[pa.Table], RowChanges | None] | None = None,
        load_rows: Callable[[Sequence[Any]], Sequence[Any]] = tuple,
    ) -> DmlResult:
        """Commit the changes as one version.

        Args:
            changes: The changes, with their files written.
            parameters: `operationParameters` of the commit.
            files: The new files.
            again: Runs the verb on files that a concurrent commit added; see `RowRebase`.
            load_rows: Returns bitmaps of rows that stand in `changes.deletion` for them.
        """
        failpoint("verb-written")
        race = RowRebase(
            snapshot=self.snapshot,
            changes=changes,
            plan=partial(self._transaction, parameters),
            again=again,
            load_rows=load_rows,
            files=files,
            allows_deletes=not self.reads_unchanged_rows,
        )
        done = commit(
            race.transaction,
            store=self.store,
            config=self.config,
            base=self.snapshot,
            hooks=post_commit_hooks(self.config),
            observer=files,
            rebase=race if self.config.row_level_concurrency else None,
        )
        self.remember(done.snapshot)
        if done.already_applied:
            return DmlResult(table=self.store.root, version=done.version, already_applied=True)
        return self._committed(done, race)

    def _committed(self, done: CommitResult, race: RowRebase) -> DmlResult:
        """Return the result of a verb with a commit."""
        adds = race.changes.written.adds
        result = DmlResult(
            table=self.store.root,
            version=done.version,
            metrics=race.transaction.metrics,
            files_added=adds.num_rows,
            files_removed=race.changes.deletion.removed.num_rows,
            bytes=total_size(adds),
            warnings=done.warnings,
        )
        return self._reported(result, committed=True)

    def _metrics(self, changes: RowChanges) -> dict[str, int]:
        written = changes.written
        metrics = {
            **changes.metrics,
            **self.file_metrics(changes.deletion),
            "numAddedFiles": written.adds.num_rows,
            "numAddedBytes": total_size(written.adds),
            "numCopiedRows": written.copied_rows,
            "numAddedChangeFiles": written.changes.num_rows,
            "executionTimeMs": int((time.monotonic() - self.started) * 1000),
        }
        return self.named(metrics)

    def _reported(self, result: DmlResult, *, committed: bool) -> DmlResult:
        """Send a result to the observer, and return it."""
        if self.config.observer is not None:
            event = RowsChanged(
                table=result.table,
                version=result.version,
                operation=self.name,
                committed=committed,
                seconds=time.monotonic() - self.started,
                metrics=dict(result.metrics),
            )
            notify(self.config.observer, event)
        return result

    def phases(self, found: float) -> dict[str, int]:
        """Return the times of the phases so far.

        Args:
            found: When the rows were found, by `time.monotonic`.
        """
        return {
            "scanTimeMs": int((found - self.started) * 1000),
            "rewriteTimeMs": int((time.monotonic() - found) * 1000),
        }

    def named(self, metrics: Mapping[str, int | None]) -> dict[str, int]:
        """Return the metrics that are known, under the names of the operation."""
        names = self.metric_names
        return {names.get(k, k): value for k, value in metrics.items() if value is not None}

    def file_metrics(self, deletion: RowDeletion) -> dict[str, int]:
        """Return the metrics of removed files and deletion vectors."""
        removed, marked = deletion.removed, deletion.marked
        updated = marked.num_rows - marked.column("deletionVector").null_count
        return {
            "numRemovedFiles": removed.num_rows,
            "numRemovedBytes": total_size(removed),
            "numDeletionVectorsAdded": marked.num_rows,
            "numDeletionVectorsRemoved": updated
            + removed.num_rows
            - removed.column("deletionVector").null_count,
            "numDeletionVectorsUpdated": updated,
        }

    def _transaction(self, parameters: Mapping[str, str], changes: RowChanges) -> Transaction:
        request, snapshot = self.request, self.snapshot
        deletion, written = changes.deletion, changes.written
        if self.predicate is None:
            reads = Reads(whole_table=True)
        else:
            bound = bind(self.predicate, snapshot.schema, snapshot.partition_columns)
            touched = [deletion.rewritten.column("path"), deletion.marked.column("path")]
            paths = pa.concat_arrays([chunk for column in touched for chunk in column.chunks] or [
                pa.nulls(0, pa.string())
            ])  # fmt: skip
            # Without paths, any removed file is a conflict.
            reads = Reads(predicates=(bound,), paths=None if self.reads_unchanged_rows else paths)
        txns = application_transactions(request.as_write())
        reads = replace(reads, app_ids=frozenset(txn.app_id for txn in txns))
        return Transaction(
            operation=self.name,
            parameters=parameters,
            metrics=self._metrics(changes),
            user_metadata=request.commit_metadata,
            adds=pa.concat_tables([written.adds, written.marked]),
            removes=removes_of([deletion.removed, deletion.marked]),
            change_files=written.changes,
            protocol=changes.protocol,
            metadata=changes.metadata,
            txns=txns,
            reads=reads,
            keeps_row_ids=RowTracking.of(snapshot).is_enabled,
        )


def _num_rows(adds: pa.Table) -> int:
    counts = num_records(adds.column("stats").combine_chunks())
    return int(pc.sum(counts).as_py() or 0)


def predicate_sql(value: Any) -> str:
    """Return a predicate as the history shows it."""
    return "true" if value is None else str(value)
