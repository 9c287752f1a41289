"""A planned write: the files that it writes and replaces, and the transaction that commits it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import orjson
import pyarrow as pa

from lazydelta._arrow import empty_table
from lazydelta.errors import TableExistsError
from lazydelta.expressions import as_predicate, bind
from lazydelta.operations.auto_compaction import write_hooks
from lazydelta.operations.dml.row_deletion import total_size
from lazydelta.operations.file_task import FileTask
from lazydelta.operations.replace_where import Replacement, replace_where
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.operations.write_request import WriteResult, application_transactions, is_applied
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import CHANGE_FILES, Transaction, commit
from lazydelta.writer.files import DataLayout, read_added_rows, write_change_files, write_data_files

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.operations.file_task import WrittenRows
    from lazydelta.operations.write_request import WriteRequest
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.schema import StructType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import CommitResult, TxnObserver
    from lazydelta.writer.enforcement import Enforcement

__all__ = ["WriteOperation"]

logger = logging.getLogger(__name__)


class WriteOperation:
    """A write planned on one snapshot, or on none: `task` writes files, `finish` commits them."""

    def __init__(
        self,
        store: Store,
        config: Config,
        request: WriteRequest,
        snapshot: SnapshotState | None,
        enforcement: Enforcement,
    ) -> None:
        self._store = store
        self._config = config
        self._request = request
        self._snapshot = snapshot
        self._enforcement = enforcement
        self.committed: SnapshotState | None = None
        """The version that `finish` committed, if it is known without reading it."""

    @property
    def enforcement(self) -> Enforcement:
        """The schema enforcement, with the table's definition after the write."""
        return self._enforcement

    @property
    def snapshot(self) -> SnapshotState | None:
        """The version that the write was planned on; None if there was no table."""
        return self._snapshot

    def rebased(self, snapshot: SnapshotState) -> Self:
        """Return the same append, planned on a newer snapshot with the same definition."""
        return type(self)(self._store, self._config, self._request, snapshot, self._enforcement)

    def is_applied(self) -> bool:
        """Whether the planned version has this application transaction."""
        return self._snapshot is not None and is_applied(self._snapshot, self._request)

    def task(self) -> FileTask:
        """Return the task that writes data files."""
        enforcement = self._enforcement
        layout = self._layout(enforcement.schema, enforcement.protocol, enforcement.metadata)
        predicate, snapshot = as_predicate(self._request.where), self._snapshot
        bound = None
        if predicate is not None:
            schema = enforcement.schema if snapshot is None else snapshot.schema
            bound = bind(predicate, schema, enforcement.metadata.partition_columns)
        return FileTask(
            enforcement=enforcement, layout=layout, replacement=Replacement(predicate=bound)
        )

    def replacement(self) -> Replacement:
        """Plan the rows to replace; may read data files."""
        snapshot = self._snapshot
        if snapshot is None or self._request.mode != "overwrite":
            return Replacement()
        return replace_where(snapshot, self._request.where)

    def finish(
        self, written: WrittenRows, replacement: Replacement, observer: TxnObserver | None = None
    ) -> WriteResult:
        """Rewrite partially replaced files, write change data files, and commit.

        On a failure before the commit was attempted, the new files are deleted. After an attempt
        they stay, because its outcome may be unknown.
        """
        with UncommittedFiles(self._store, observer) as files:
            files.add(written.adds)
            adds = files.add(self._with_rewritten(written.adds, replacement))
            changes = files.add(self._change_files(written.adds, replacement))
            return self._committed(adds, changes, written, replacement, files)

    def _committed(
        self,
        adds: pa.Table,
        changes: pa.Table,
        written: WrittenRows,
        replacement: Replacement,
        observer: TxnObserver,
    ) -> WriteResult:
        transaction = self._transaction(adds, changes, written, replacement)
        try:
            done = self._commit(transaction, observer)
        except TableExistsError:
            if self._request.mode != "ignore":
                raise
            newest = load_snapshot(self._store, self._config)
            return WriteResult(table=self._store.root, version=newest.version, skipped=True)
        self.committed = done.snapshot
        if done.already_applied:
            return WriteResult(table=self._store.root, version=done.version, already_applied=True)
        result = WriteResult(
            table=self._store.root,
            version=done.version,
            rows=written.rows,
            bytes=total_size(adds),
            files_added=adds.num_rows,
            files_removed=replacement.removes.num_rows,
            warnings=done.warnings,
        )
        logger.info(
            "wrote %d rows in %d files to %s, version %d",
            result.rows, result.files_added, self._store.root, result.version,
        )  # fmt: skip
        return result

    def _with_rewritten(self, adds: pa.Table, replacement: Replacement) -> pa.Table:
        """Rewrite the kept rows of removed files, and return all add actions."""
        snapshot = self._snapshot
        if replacement.rewritten is None or snapshot is None:
            return adds
        with replacement.rewritten as rows:
            layout = self._layout(snapshot.schema, snapshot.protocol, snapshot.metadata)
            layout = RowTracking.of(snapshot).layout(layout)
            return pa.concat_tables(
                [adds, write_data_files(rows, store=self._store, layout=layout)]
            )

    def _change_files(self, adds: pa.Table, replacement: Replacement) -> pa.Table:
        """Write change data files if the replacement needs them."""
        snapshot, enforcement = self._snapshot, self._enforcement
        if replacement.deleted is None or snapshot is None:
            return empty_table(CHANGE_FILES)
        before = self._layout(snapshot.schema, snapshot.protocol, snapshot.metadata)
        after = self._layout(enforcement.schema, enforcement.protocol, enforcement.metadata)
        with replacement.deleted as old, read_added_rows(adds, snapshot, enforcement) as new:
            return pa.concat_tables([
                write_change_files(old, "delete", store=self._store, layout=before),
                write_change_files(new, "insert", store=self._store, layout=after),
            ])  # fmt: skip

    def _layout(
        self, schema: StructType, protocol: TableProtocol, metadata: TableMetadata
    ) -> DataLayout:
        options = self._request.options or self._config.write
        clustered = [] if self._snapshot is None else self._snapshot.clustering_columns()
        return DataLayout.of(schema, protocol, metadata, options, clustered_by=clustered)

    def _transaction(
        self, adds: pa.Table, changes: pa.Table, written: WrittenRows, replacement: Replacement
    ) -> Transaction:
        request, enforcement, snapshot = self._request, self._enforcement, self._snapshot
        protocol: TableProtocol | None = enforcement.protocol
        metadata: TableMetadata | None = enforcement.advanced_metadata(written.high_water_marks)
        if snapshot is not None:
            protocol = None if protocol == snapshot.protocol else protocol
            metadata = None if metadata == snapshot.metadata else metadata
        txns = application_transactions(request)
        reads = replace(replacement.reads, app_ids=frozenset(txn.app_id for txn in txns))
        return Transaction(
            operation="WRITE",
            parameters=self._parameters(),
            metrics={
                "numFiles": adds.num_rows,
                "numOutputRows": written.rows,
                "numOutputBytes": total_size(adds),
                "numRemovedFiles": replacement.removes.num_rows,
                **({"numAddedChangeFiles": changes.num_rows} if changes.num_rows else {}),
            },
            user_metadata=request.commit_metadata,
            adds=adds,
            removes=replacement.removes,
            change_files=changes,
            protocol=protocol,
            metadata=metadata,
            txns=txns,
            reads=reads,
            keeps_row_ids=snapshot is not None and RowTracking.of(snapshot).is_enabled,
        )

    def _parameters(self) -> dict[str, str]:
        """Return the operation parameters of the history, all strings as in Spark."""
        mode = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite"}
        columns = orjson.dumps(self._enforcement.metadata.partition_columns).decode()
        parameters = {"mode": mode.get(self._request.mode, "Ignore"), "partitionBy": columns}
        if self._request.where is not None:
            parameters["predicate"] = str(as_predicate(self._request.where))
        return parameters

    def _commit(self, transaction: Transaction, observer: TxnObserver | None) -> CommitResult:
        base = self._snapshot
        try:
            return self._try(transaction, base, observer)
        except TableExistsError:
            # Another writer created the table meanwhile. An append to a table of the same
            # definition can follow it, and an applied transaction has nothing to do; anything
            # else would be a different operation.
            base = load_snapshot(self._store, self._config)
            can_append = self._request.mode == "append" and self._has_same_definition(base)
            if not can_append and not is_applied(base, self._request):
                raise
        return self._try(replace(transaction, protocol=None, metadata=None), base, observer)

    def _try(
        self, transaction: Transaction, base: SnapshotState | None, observer: TxnObserver | None
    ) -> CommitResult:
        return commit(
            transaction,
            store=self._store,
            config=self._config,
            base=base,
            hooks=write_hooks(self._config),
            observer=observer,
        )

    def _has_same_definition(self, snapshot: SnapshotState) -> bool:
        planned = self._enforcement
        return (
            planned.schema == snapshot.schema
            and planned.protocol == snapshot.protocol
            and planned.metadata.partition_columns == snapshot.metadata.partition_columns
            and planned.metadata.configuration == snapshot.metadata.configuration
        )
