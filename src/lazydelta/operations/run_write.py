"""Run a write: on the newest snapshot, or on that of the caller's handle while it is confirmed.

An append from memory to a remote table writes its data files while one listing confirms the
snapshot. If the table's definition has changed meanwhile, the files are deleted and the append is
planned anew. All other writes list first: their rows can be read only once, or they read the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta._parallel import start
from lazydelta.errors import (
    DeltaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lazydelta.operations.replace_where import Replacement
from lazydelta.operations.write import WriteOperation, is_applied
from lazydelta.operations.write_request import WriteResult
from lazydelta.snapshot import load_snapshot
from lazydelta.store import is_local
from lazydelta.transaction import newest_snapshot, validate_newest_commit
from lazydelta.writer import as_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lazydelta.config import Config
    from lazydelta.operations.file_task import WrittenRows
    from lazydelta.operations.write_request import WriteRequest
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import TxnObserver

    Remember = Callable[[SnapshotState | None], None]

__all__ = ["plan_write", "write_rows"]


def write_rows(
    store: Store,
    config: Config,
    data: Any,
    request: WriteRequest,
    *,
    known: SnapshotState | None = None,
    remember: Remember = lambda _: None,
    observer: TxnObserver | None = None,
) -> WriteResult:
    """Write rows and commit them as one version.

    Args:
        store: The table's store.
        config: Settings of the engine.
        data: The rows.
        request: The options of the write.
        known: The last snapshot that the caller has of the table; may be outdated.
        remember: Receives the committed snapshot, or None if it is not known.
        observer: Receives each phase of the commit.

    Raises:
        TableExistsError: The table exists, and the mode is `error`.
        SchemaMismatchError: The rows do not fit the table; nothing was written.
        ConstraintViolationError: Rows violate a constraint of the table, or do not match the
            predicate.
        IdentityExhaustedError: An identity column has too few values left.
        CommitConflictError: A concurrent commit conflicts with this one.
        UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
    """
    run = _Run(store, config, request, remember, observer)
    is_append = request.mode == "append" and request.app_id is None
    if known is not None and is_append and _is_in_memory(data) and not is_local(store):
        return run.append(known, data)
    snapshot = run.newest(known)
    done = _nothing_to_do(store, request, snapshot)
    if done is not None:
        return done
    source = as_source(data)
    return run.write(snapshot, source.schema, source.batches)


def plan_write(
    store: Store, config: Config, schema: pa.Schema, request: WriteRequest
) -> WriteOperation | WriteResult:
    """Plan a write whose files are written in other processes; a result if there is no work.

    Raises the same errors as `write_rows` before it writes, and `UnsupportedFeatureError` for
    identity columns.
    """
    run = _Run(store, config, request)
    snapshot = run.newest(None)
    done = _nothing_to_do(store, request, snapshot)
    if done is not None:
        return done
    operation = run.plan(snapshot, schema)
    for column in operation.enforcement.identity:
        reason = f"identity column {column.name!r} needs a write in a single process"
        cure = "write the rows with lazydelta.write"
        raise UnsupportedFeatureError(
            store.root, ("identityColumns",), "write", f"{reason}; {cure}"
        )
    return operation


class _Run:
    """One write to a table."""

    def __init__(
        self,
        store: Store,
        config: Config,
        request: WriteRequest,
        remember: Remember = lambda _: None,
        observer: TxnObserver | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._request = request
        self._remember = remember
        self._observer = observer

    def newest(self, known: SnapshotState | None) -> SnapshotState | None:
        """Return the newest snapshot; None if there is no table."""
        try:
            if known is None:
                return load_snapshot(self._store, self._config)
            return newest_snapshot(known)
        except TableNotFoundError:
            return None

    def plan(self, snapshot: SnapshotState | None, schema: pa.Schema) -> WriteOperation:
        """Plan the write on the newest snapshot."""
        if snapshot is not None:
            validate_newest_commit(snapshot)
        return WriteOperation.plan(self._store, self._config, self._request, snapshot, schema)

    def write(
        self,
        snapshot: SnapshotState | None,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
    ) -> WriteResult:
        """Plan the write on the newest snapshot, write its files and commit them."""
        operation = self.plan(snapshot, schema)
        replacement = operation.replacement()
        return self._finish(operation, operation.task()(batches, self._store), replacement)

    def append(self, known: SnapshotState, data: Any) -> WriteResult:
        """Write the files on a snapshot that may be outdated, while a listing confirms it."""
        source = as_source(data)
        batches = list(source.batches)
        newest = start(lambda: self.newest(known), threaded=True)
        try:
            planned = WriteOperation.plan(
                self._store, self._config, self._request, known, source.schema
            )
            written = planned.task()(batches, self._store)
        except DeltaError:
            if _has_definition_of(known, newest.result()):
                raise
            return self.write(newest.result(), source.schema, batches)
        try:
            snapshot = newest.result()
        except BaseException:
            planned.delete(written.adds)
            raise
        if snapshot is None or not _has_definition_of(known, snapshot):
            planned.delete(written.adds)
            return self.write(snapshot, source.schema, batches)
        return self._finish(planned.rebased(snapshot), written, Replacement())

    def _finish(
        self, operation: WriteOperation, written: WrittenRows, replacement: Replacement
    ) -> WriteResult:
        result = operation.finish(written, replacement, self._observer)
        self._remember(operation.committed)
        return result


def _has_definition_of(known: SnapshotState, newest: SnapshotState | None) -> bool:
    """Whether a newer snapshot has the same protocol and metadata.

    An append reads no rows, so nothing else of the table matters to its files.
    """
    definition = (known.protocol, known.metadata)
    return newest is not None and definition == (newest.protocol, newest.metadata)


def _nothing_to_do(
    store: Store, request: WriteRequest, snapshot: SnapshotState | None
) -> WriteResult | None:
    if snapshot is None:
        return None
    if is_applied(snapshot, request):  # first: this transaction may have created the table
        return WriteResult(table=store.root, version=snapshot.version, already_applied=True)
    if request.mode == "error":
        raise TableExistsError(store.root)
    if request.mode == "ignore":
        return WriteResult(table=store.root, version=snapshot.version, skipped=True)
    return None


def _is_in_memory(data: Any) -> bool:
    """Whether rows are in memory, so that they can be written again."""
    return isinstance(data, dict | pa.Table | pa.RecordBatch) or type(data).__name__ == "DataFrame"
