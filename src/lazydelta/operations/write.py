"""Write rows to a table: append, overwrite, replace where, or create the table.

Plans the write, writes data files, and commits a `Transaction`; `transaction` handles concurrent
commits. All validation that needs no rows happens before the first file is written.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import empty_table
from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import (
    AppendOnlyError,
    ConfigError,
    StoreError,
    TableExistsError,
    UnsupportedFeatureError,
)
from lazydelta.expressions import as_predicate, bind
from lazydelta.log import LOG_DIRECTORY
from lazydelta.operations.create import new_table
from lazydelta.operations.file_task import FileTask
from lazydelta.operations.replace_where import Replacement, replace_where
from lazydelta.operations.write_request import WriteResult
from lazydelta.protocol import SetTransaction
from lazydelta.protocol.features import supported_by_table, unwritable_features
from lazydelta.schema import from_arrow_schema, parse_schema, schema_to_json
from lazydelta.schema.mapping import without_metadata
from lazydelta.snapshot import load_snapshot
from lazydelta.store import check_writable
from lazydelta.transaction import (
    CHANGE_FILES,
    Transaction,
    check_user_metadata,
    commit,
)
from lazydelta.writer.columns import with_high_water_marks
from lazydelta.writer.enforcement import plan_enforcement
from lazydelta.writer.files import DataLayout, read_added_rows, write_change_files, write_data_files
from lazydelta.writer.properties import RequestedProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.config import Config
    from lazydelta.operations.file_task import WrittenRows
    from lazydelta.operations.write_request import WriteRequest
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.schema import StructType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import CommitResult, Phase, TxnObserver
    from lazydelta.writer.enforcement import Enforcement

__all__ = ["WriteOperation", "is_applied"]

logger = logging.getLogger(__name__)


def is_applied(snapshot: SnapshotState, request: WriteRequest) -> bool:
    """Whether a snapshot has the application transaction of a request."""
    if request.app_id is None or request.app_version is None:
        return False
    latest = snapshot.transactions().get(request.app_id)
    return latest is not None and latest.version >= request.app_version


class _AttemptObserver:
    """Records whether a commit was attempted, and forwards the phases to the caller's observer."""

    def __init__(self, observer: TxnObserver | None) -> None:
        self._observer = observer
        self.was_attempted = False
        """Whether a commit file was put, or is about to be: the outcome may be unknown."""

    def __call__(self, phase: Phase, version: int, /) -> None:
        self.was_attempted = self.was_attempted or phase == "put"
        if self._observer is not None:
            self._observer(phase, version)


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

    @classmethod
    def plan(
        cls,
        store: Store,
        config: Config,
        request: WriteRequest,
        snapshot: SnapshotState | None,
        incoming: pa.Schema,
    ) -> Self:
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
        return cls(store, config, request, snapshot, enforcement)

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
        attempt = _AttemptObserver(observer)
        files = [written.adds]
        try:
            files.append(adds := self._with_rewritten(written.adds, replacement))
            files.append(changes := self._change_files(written.adds, replacement))
            result = self._committed(adds, changes, written, replacement, attempt)
        except BaseException:
            if not attempt.was_attempted:
                self.delete(*files)
            raise
        if not attempt.was_attempted:
            self.delete(*files)  # nothing was committed
        return result

    def delete(self, *files: pa.Table) -> None:
        """Delete files that no commit was attempted with, given as add actions."""
        paths = {unquote(path) for adds in files for path in adds.column("path").to_pylist()}
        with contextlib.suppress(StoreError):
            self._store.delete(sorted(paths))

    def _committed(
        self,
        adds: pa.Table,
        changes: pa.Table,
        written: WrittenRows,
        replacement: Replacement,
        attempt: _AttemptObserver,
    ) -> WriteResult:
        transaction = self._transaction(adds, changes, written, replacement)
        try:
            done = self._commit(transaction, attempt)
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
            bytes=_total(adds),
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
        metadata: TableMetadata | None = _advanced_metadata(enforcement, written.high_water_marks)
        if snapshot is not None:
            protocol = None if protocol == snapshot.protocol else protocol
            metadata = None if metadata == snapshot.metadata else metadata
        now = time.time_ns() // 1_000_000
        app_id, app_version = request.app_id, request.app_version
        txns = () if app_id is None or app_version is None else (SetTransaction(
            app_id=app_id, version=app_version, last_updated=now
        ),)  # fmt: skip
        reads = replacement.reads if app_id is None else replace(
            replacement.reads, app_ids=frozenset({app_id})
        )  # fmt: skip
        return Transaction(
            operation="WRITE",
            parameters=self._parameters(),
            metrics={
                "numFiles": adds.num_rows,
                "numOutputRows": written.rows,
                "numOutputBytes": _total(adds),
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
            hooks=post_commit_hooks(self._config),
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


def _advanced_metadata(enforcement: Enforcement, marks: Mapping[str, int]) -> TableMetadata:
    """Return the table's metadata after the write, with advanced high-water marks."""
    schema = with_high_water_marks(enforcement.schema, enforcement.identity, marks)
    if schema is enforcement.schema:
        return enforcement.metadata
    return replace(enforcement.metadata, schema_string=schema_to_json(schema))


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
        raise UnsupportedFeatureError(table, features, "write")
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
    features = set(requested.features) - supported_by_table(protocol)
    different += [f"delta.feature.{name}" for name in sorted(features)]
    if (requested.min_reader_version or 1) > protocol.min_reader_version:
        different.append("delta.minReaderVersion")
    if (requested.min_writer_version or 1) > protocol.min_writer_version:
        different.append("delta.minWriterVersion")
    for key in different:
        reason = f"{key} is not {request.properties[key]!r} in this table"
        raise ConfigError("properties", f"{reason}; use table.alter to set it")


def _total(adds: pa.Table) -> int:
    return int(pc.sum(adds.column("size")).as_py() or 0)
