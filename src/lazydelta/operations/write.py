"""Write rows to a table: append, overwrite, replace where, or create the table.

Validates the request against the table and plans a `WriteOperation`. All validation that needs no
rows happens before the first file is written.

An append from memory to a remote table writes its data files while one listing confirms the last
snapshot of the handle. If the definition of the table has changed, the files are deleted and the
append is planned anew. Other writes list first: they read the table, or can read their rows only
once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta._parallel import start_thread
from lazydelta.errors import (
    AppendOnlyError,
    ConfigError,
    DeltaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lazydelta.log import LOG_DIRECTORY
from lazydelta.operations.create import new_table
from lazydelta.operations.replace_where import Replacement
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.operations.write_operation import WriteOperation
from lazydelta.operations.write_request import WriteResult, is_applied
from lazydelta.protocol.features import supported_features, unsupported_error, unwritable_features
from lazydelta.schema import from_arrow_schema, parse_schema
from lazydelta.schema.mapping import without_metadata
from lazydelta.snapshot import load_snapshot
from lazydelta.store import check_writable, is_local
from lazydelta.transaction import check_user_metadata, validate_newest_commit
from lazydelta.writer import as_source
from lazydelta.writer.enforcement import plan_enforcement
from lazydelta.writer.properties import RequestedProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lazydelta.config import Config
    from lazydelta.operations.file_task import WrittenRows
    from lazydelta.operations.write_request import WriteRequest
    from lazydelta.protocol import TableMetadata, TableProtocol
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
    snapshot = _existing(store, config, known)
    done = _nothing_to_do(store, request, snapshot)
    if done is not None:
        return done
    source = as_source(data)
    return run.write(snapshot, source.schema, source.batches)


@dataclass(frozen=True)
class _Run:
    """One write to a table."""

    store: Store
    config: Config
    request: WriteRequest
    remember: Remember
    observer: TxnObserver | None

    def write(
        self,
        snapshot: SnapshotState | None,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
    ) -> WriteResult:
        """Write the files on the newest snapshot, and commit them."""
        operation = _plan(self.store, self.config, self.request, snapshot, schema)
        replacement = operation.replacement()
        written = operation.task()(batches, self.store)
        return self._finish(operation, written, replacement, self.observer)

    def append(self, known: SnapshotState, data: Any) -> WriteResult:
        """Write the files on a snapshot that may be outdated, while a listing confirms it."""
        source = as_source(data)
        batches = list(source.batches)
        newest = start_thread(lambda: _existing(self.store, self.config, known))
        try:
            planned = _planned_on(self.store, self.config, self.request, known, source.schema)
            written = planned.task()(batches, self.store)
        except DeltaError:
            if _has_definition_of(known, newest.result()):
                raise
            return self.write(newest.result(), source.schema, batches)
        with UncommittedFiles(self.store, self.observer) as files:
            files.add(written.adds)
            snapshot = newest.result()
            if snapshot is not None and _has_definition_of(known, snapshot):
                return self._finish(planned.rebased(snapshot), written, Replacement(), files)
        return self.write(snapshot, source.schema, batches)

    def _finish(
        self,
        operation: WriteOperation,
        written: WrittenRows,
        replacement: Replacement,
        observer: TxnObserver | None,
    ) -> WriteResult:
        result = operation.finish(written, replacement, observer)
        self.remember(operation.committed)
        return result


def _has_definition_of(known: SnapshotState, newest: SnapshotState | None) -> bool:
    """Whether a newer snapshot has the same protocol and metadata.

    An append reads no rows, so nothing else of the table matters to its files.
    """
    definition = (known.protocol, known.metadata)
    return newest is not None and definition == (newest.protocol, newest.metadata)


def _is_in_memory(data: Any) -> bool:
    """Whether rows are in memory, so that they can be written again."""
    return isinstance(data, dict | pa.Table | pa.RecordBatch) or type(data).__name__ == "DataFrame"


def plan_write(
    store: Store, config: Config, schema: pa.Schema, request: WriteRequest
) -> WriteOperation | WriteResult:
    """Plan a write whose files are written in other processes; a result if there is no work.

    Raises the same errors as `write_rows` before it writes, and `UnsupportedFeatureError` for
    identity columns.
    """
    snapshot = _existing(store, config)
    done = _nothing_to_do(store, request, snapshot)
    if done is not None:
        return done
    operation = _plan(store, config, request, snapshot, schema)
    for column in operation.enforcement.identity:
        reason = f"identity column {column.name!r} needs a write in a single process"
        cure = "write the rows with lazydelta.write"
        raise UnsupportedFeatureError(
            store.root, ("identityColumns",), "write", f"{reason}; {cure}"
        )
    return operation


def _plan(
    store: Store,
    config: Config,
    request: WriteRequest,
    snapshot: SnapshotState | None,
    incoming: pa.Schema,
) -> WriteOperation:
    """Plan a write on the newest snapshot."""
    if snapshot is not None:
        validate_newest_commit(snapshot)
    return _planned_on(store, config, request, snapshot, incoming)


def _planned_on(
    store: Store,
    config: Config,
    request: WriteRequest,
    snapshot: SnapshotState | None,
    incoming: pa.Schema,
) -> WriteOperation:
    """Validate a request, and plan the enforcement for rows of a schema."""
    check_user_metadata(request.commit_metadata, store.root)
    check_writable(store, LOG_DIRECTORY)
    protocol, metadata = _base_definition(store.root, request, snapshot, incoming)
    enforcement = plan_enforcement(
        table=store.root,
        protocol=protocol,
        metadata=metadata,
        schema=parse_schema(metadata.schema_string, where=store.root)
        if snapshot is None or metadata is not snapshot.metadata
        else snapshot.schema,
        incoming=incoming,
        schema_mode=request.schema_mode,
    )
    return WriteOperation(store, config, request, snapshot, enforcement)


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


def _existing(
    store: Store, config: Config, known: SnapshotState | None = None
) -> SnapshotState | None:
    try:
        return load_snapshot(store, config, previous=known)
    except TableNotFoundError:
        return None


def _base_definition(
    table: str, request: WriteRequest, snapshot: SnapshotState | None, incoming: pa.Schema
) -> tuple[TableProtocol, TableMetadata]:
    """Return the protocol and metadata to write to: the table's, or those of a new table."""
    if snapshot is None:
        # The rows have explicit values, so the new table has no identity column.
        schema = without_metadata(
            from_arrow_schema(incoming), lambda key: key.startswith("delta.identity.")
        )
        return new_table(
            schema,
            partition_by=request.partition_by or (),
            properties=request.properties,
            name=request.name,
            description=request.description,
            table=table,
        )
    if features := unwritable_features(snapshot.protocol):
        raise unsupported_error(table, features, "write")
    if request.mode == "overwrite" and snapshot.properties.append_only:
        raise AppendOnlyError(table, "an overwrite")
    return snapshot.protocol, _unchanged(request, snapshot)


def _unchanged(request: WriteRequest, snapshot: SnapshotState) -> TableMetadata:
    """Return the table's metadata; refuse options that contradict the existing table."""
    _check_properties(request, snapshot)
    metadata = snapshot.metadata
    columns, existing = request.partition_by, metadata.partition_columns
    if columns is None or [c.lower() for c in columns] == [c.lower() for c in existing]:
        return metadata
    if request.schema_mode != "overwrite":
        raise ConfigError(
            "partition_by",
            f"the table is partitioned by {list(existing)}, not {list(columns)}; only "
            'mode="overwrite" with schema_mode="overwrite" changes that',
        )
    return replace(metadata, partition_columns=columns)


def _check_properties(request: WriteRequest, snapshot: SnapshotState) -> None:
    """Refuse properties that differ from the table's: a write sets them on new tables only."""
    requested = RequestedProperties.parse(request.properties)
    protocol, existing = snapshot.protocol, snapshot.metadata.configuration
    different = [k for k, value in requested.configuration.items() if existing.get(k) != value]
    features = set(requested.features) - supported_features(protocol)
    different += [f"delta.feature.{name}" for name in sorted(features)]
    if (requested.min_reader_version or 1) > protocol.min_reader_version:
        different.append("delta.minReaderVersion")
    if (requested.min_writer_version or 1) > protocol.min_writer_version:
        different.append("delta.minWriterVersion")
    for key in different:
        reason = f"{key} is not {request.properties[key]!r} in this table"
        raise ConfigError("properties", f"{reason}; use table.alter to set it")
