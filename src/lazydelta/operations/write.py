"""Writing rows to a table: append, overwrite, replace a part, or create it with them.

Plans and does what must be done before a commit, and hands over a `Transaction`; races are
`transaction`'s business. Everything that can be refused is refused before the first file is written.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
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
    TableNotFoundError,
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
    validate_newest_commit,
)
from lazydelta.writer import (
    DataLayout,
    RequestedProperties,
    as_source,
    plan_enforcement,
    rows_of,
    with_high_water_marks,
    write_change_files,
    write_data_files,
)

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
    from lazydelta.writer import Enforcement

__all__ = ["Writing", "plan_write", "write_rows"]

logger = logging.getLogger(__name__)


def write_rows(
    store: Store,
    config: Config,
    data: Any,
    request: WriteRequest,
    *,
    observer: TxnObserver | None = None,
) -> WriteResult:
    """Write rows and commit them as one version.

    Raises:
        TableExistsError: There is a table, and the mode is `error`.
        SchemaMismatchError: The rows do not fit the table; nothing was written.
        ConstraintViolationError: Rows break a rule of the table, or miss the predicate.
        IdentityExhaustedError: The table has not enough numbers left for the rows.
        CommitConflictError: Another writer's commit contradicts this one.
        UnsupportedFeatureError: The table needs what lazydelta cannot write.
    """
    snapshot = _existing(store, config)
    done = _nothing_to_do(store, request, snapshot)
    if done is not None:
        return done
    source = as_source(data)
    writing = Writing.plan(store, config, request, snapshot, source.schema)
    replaced = writing.replaced()
    return writing.finish(writing.task()(source.batches, store), replaced, observer)


def plan_write(
    store: Store, config: Config, schema: pa.Schema, request: WriteRequest
) -> Writing | WriteResult:
    """Plan a write whose files others make; the result itself where there is nothing to write.

    Raises what `write` does before it writes anything, and `UnsupportedFeatureError` where rows
    must be numbered one after another.
    """
    snapshot = _existing(store, config)
    done = _nothing_to_do(store, request, snapshot)
    if done is not None:
        return done
    writing = Writing.plan(store, config, request, snapshot, schema)
    for column in writing.intake.identity:
        reason = f"rows are numbered in column {column.name!r}, which only one process can do"
        cure = "write them with lazydelta.write"
        raise UnsupportedFeatureError(
            store.root, ("identityColumns",), "write", f"{reason}; {cure}"
        )
    return writing


def _nothing_to_do(
    store: Store, request: WriteRequest, snapshot: SnapshotState | None
) -> WriteResult | None:
    if snapshot is None:
        return None
    if _is_applied(snapshot, request):  # first: the table may be there because this step made it
        return WriteResult(table=store.root, version=snapshot.version, already_applied=True)
    if request.mode == "error":
        raise TableExistsError(store.root)
    if request.mode == "ignore":
        return WriteResult(table=store.root, version=snapshot.version, skipped=True)
    return None


def _existing(store: Store, config: Config) -> SnapshotState | None:
    try:
        return load_snapshot(store, config)
    except TableNotFoundError:
        return None


def _is_applied(snapshot: SnapshotState, request: WriteRequest) -> bool:
    if request.app_id is None or request.app_version is None:
        return False
    known = snapshot.transactions().get(request.app_id)
    return known is not None and known.version >= request.app_version


class _Attempt:
    """Observes a commit, and knows whether its outcome may be unknown."""

    def __init__(self, observer: TxnObserver | None) -> None:
        self._observer = observer
        self.is_made = False
        """Whether a version was put, or is about to be."""

    def __call__(self, phase: Phase, version: int, /) -> None:
        self.is_made = self.is_made or phase == "put"
        if self._observer is not None:
            self._observer(phase, version)


class Writing:
    """One write, planned on one version (or on none): `task` makes files, `finish` commits them."""

    def __init__(
        self,
        store: Store,
        config: Config,
        request: WriteRequest,
        snapshot: SnapshotState | None,
        intake: Enforcement,
    ) -> None:
        self._store = store
        self._config = config
        self._request = request
        self._snapshot = snapshot
        self._intake = intake

    @classmethod
    def plan(
        cls,
        store: Store,
        config: Config,
        request: WriteRequest,
        snapshot: SnapshotState | None,
        incoming: pa.Schema,
    ) -> Self:
        """Decide how rows of a schema get into the table, or refuse them."""
        check_user_metadata(request.commit_metadata, store.root)
        check_writable(store, LOG_DIRECTORY)
        if snapshot is not None:
            validate_newest_commit(snapshot)
        protocol, metadata = _before(store.root, request, snapshot, incoming)
        intake = plan_enforcement(
            table=store.root,
            protocol=protocol,
            metadata=metadata,
            schema=parse_schema(metadata.schema_string, where=store.root)
            if snapshot is None or metadata is not snapshot.metadata
            else snapshot.schema,
            incoming=incoming,
            schema_mode=request.schema_mode,
        )
        return cls(store, config, request, snapshot, intake)

    @property
    def intake(self) -> Enforcement:
        """How the rows get into the table, and what that makes of it."""
        return self._intake

    @property
    def snapshot(self) -> SnapshotState | None:
        """The version it was planned on."""
        return self._snapshot

    def is_applied(self) -> bool:
        """Whether the version that it was planned on has this step of the application."""
        return self._snapshot is not None and _is_applied(self._snapshot, self._request)

    def task(self) -> FileTask:
        """Return what makes the files."""
        intake = self._intake
        layout = self._layout(intake.schema, intake.protocol, intake.metadata)
        given, snapshot = as_predicate(self._request.where), self._snapshot
        bound = None
        if given is not None:
            schema = intake.schema if snapshot is None else snapshot.schema
            bound = bind(given, schema, intake.metadata.partition_columns)
        return FileTask(intake=intake, layout=layout, replaced=Replacement(predicate=bound))

    def replaced(self) -> Replacement:
        """Return what the new rows take the place of; may read data files to tell."""
        snapshot = self._snapshot
        if snapshot is None or self._request.mode != "overwrite":
            return Replacement()
        return replace_where(snapshot, self._request.where)

    def finish(
        self, written: WrittenRows, replaced: Replacement, observer: TxnObserver | None = None
    ) -> WriteResult:
        """Write what stays of files that go, and commit everything as one version.

        If it fails before a commit was attempted, the new files are deleted: no version can name
        them. After an attempt they stay, because its outcome may be unknown.
        """
        attempt = _Attempt(observer)
        files = [written.adds]
        try:
            files.append(adds := self._with_rewritten(written.adds, replaced))
            files.append(told := self._change_files(written.adds, replaced))
            result = self._committed(adds, told, written, replaced, attempt)
        except BaseException:
            if not attempt.is_made:
                self._delete(files)
            raise
        if not attempt.is_made:
            self._delete(files)  # there was nothing to commit
        return result

    def _delete(self, files: list[pa.Table]) -> None:
        paths = {unquote(path) for adds in files for path in adds.column("path").to_pylist()}
        with contextlib.suppress(StoreError):
            self._store.delete(sorted(paths))

    def _committed(
        self,
        adds: pa.Table,
        told: pa.Table,
        written: WrittenRows,
        replaced: Replacement,
        attempt: _Attempt,
    ) -> WriteResult:
        transaction = self._transaction(adds, told, written, replaced)
        try:
            done = self._commit(transaction, attempt)
        except TableExistsError:
            if self._request.mode != "ignore":
                raise
            newest = load_snapshot(self._store, self._config)
            return WriteResult(table=self._store.root, version=newest.version, skipped=True)
        if done.already_applied:
            return WriteResult(table=self._store.root, version=done.version, already_applied=True)
        result = WriteResult(
            table=self._store.root,
            version=done.version,
            rows=written.rows,
            bytes=_total(adds),
            files_added=adds.num_rows,
            files_removed=replaced.removes.num_rows,
            warnings=done.warnings,
        )
        logger.info(
            "wrote %d rows in %d files to %s, version %d",
            result.rows, result.files_added, self._store.root, result.version,
        )  # fmt: skip
        return result

    def _with_rewritten(self, adds: pa.Table, replaced: Replacement) -> pa.Table:
        """Return the adds, those of rows that stay of files that go among them."""
        snapshot = self._snapshot
        if replaced.rewritten is None or snapshot is None:
            return adds
        with replaced.rewritten as rows:
            layout = self._layout(snapshot.schema, snapshot.protocol, snapshot.metadata)
            return pa.concat_tables(
                [adds, write_data_files(rows, store=self._store, layout=layout)]
            )

    def _change_files(self, adds: pa.Table, replaced: Replacement) -> pa.Table:
        """Return the files that tell what changed, where those that come and go do not."""
        snapshot, intake = self._snapshot, self._intake
        if replaced.deleted is None or snapshot is None:
            return empty_table(CHANGE_FILES)
        before = self._layout(snapshot.schema, snapshot.protocol, snapshot.metadata)
        after = self._layout(intake.schema, intake.protocol, intake.metadata)
        with replaced.deleted as gone, rows_of(adds, snapshot, intake) as new:
            return pa.concat_tables([
                write_change_files(gone, "delete", store=self._store, layout=before),
                write_change_files(new, "insert", store=self._store, layout=after),
            ])  # fmt: skip

    def _layout(
        self, schema: StructType, protocol: TableProtocol, metadata: TableMetadata
    ) -> DataLayout:
        options = self._request.options or self._config.write
        clustered = [] if self._snapshot is None else self._snapshot.clustering_columns()
        return DataLayout.of(schema, protocol, metadata, options, clustered_by=clustered)

    def _transaction(
        self, adds: pa.Table, told: pa.Table, written: WrittenRows, replaced: Replacement
    ) -> Transaction:
        request, intake, snapshot = self._request, self._intake, self._snapshot
        protocol: TableProtocol | None = intake.protocol
        metadata: TableMetadata | None = _with_marks(intake, written.reached)
        if snapshot is not None:
            protocol = None if protocol == snapshot.protocol else protocol
            metadata = None if metadata == snapshot.metadata else metadata
        now = time.time_ns() // 1_000_000
        app_id, step = request.app_id, request.app_version
        txns = () if app_id is None or step is None else (SetTransaction(
            app_id=app_id, version=step, last_updated=now
        ),)  # fmt: skip
        reads = replaced.reads if app_id is None else replace(
            replaced.reads, app_ids=frozenset({app_id})
        )  # fmt: skip
        return Transaction(
            operation="WRITE",
            parameters=self._parameters(),
            metrics={
                "numFiles": adds.num_rows,
                "numOutputRows": written.rows,
                "numOutputBytes": _total(adds),
                "numRemovedFiles": replaced.removes.num_rows,
                **({"numAddedChangeFiles": told.num_rows} if told.num_rows else {}),
            },
            user_metadata=request.commit_metadata,
            adds=adds,
            removes=replaced.removes,
            change_files=told,
            protocol=protocol,
            metadata=metadata,
            txns=txns,
            reads=reads,
        )

    def _parameters(self) -> dict[str, str]:
        """Return the words of the history, each a text as Spark writes it."""
        mode = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite"}
        columns = orjson.dumps(self._intake.metadata.partition_columns).decode()
        said = {"mode": mode.get(self._request.mode, "Ignore"), "partitionBy": columns}
        if self._request.where is not None:
            said["predicate"] = str(as_predicate(self._request.where))
        return said

    def _commit(self, transaction: Transaction, observer: TxnObserver | None) -> CommitResult:
        base = self._snapshot
        try:
            return self._try(transaction, base, observer)
        except TableExistsError:
            # Somebody made the table while these rows were written. An append to a table that is
            # made alike means the same after it, and another run of this very step leaves nothing
            # to do; anything else would be another operation.
            base = load_snapshot(self._store, self._config)
            may_follow = self._request.mode == "append" and self._is_alike(base)
            if not may_follow and not _is_applied(base, self._request):
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

    def _is_alike(self, snapshot: SnapshotState) -> bool:
        mine, other = self._intake, snapshot
        return (
            mine.schema == other.schema
            and mine.protocol == other.protocol
            and mine.metadata.partition_columns == other.metadata.partition_columns
            and mine.metadata.configuration == other.metadata.configuration
        )


def _with_marks(intake: Enforcement, reached: Mapping[str, int]) -> TableMetadata:
    """Return the table's metadata after the write, which says how far its rows are numbered."""
    schema = with_high_water_marks(intake.schema, intake.identity, reached)
    if schema is intake.schema:
        return intake.metadata
    return replace(intake.metadata, schema_string=schema_to_json(schema))


def _before(
    table: str, request: WriteRequest, snapshot: SnapshotState | None, incoming: pa.Schema
) -> tuple[TableProtocol, TableMetadata]:
    """Return what the rows are to fit: the table's own words, or those of a new one."""
    if snapshot is None:
        # The rows bring their values along, so no column of theirs is an identity column.
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
    """Return the table's metadata; refuse wishes that a write of rows does not fulfil."""
    _check_properties(request, snapshot)
    metadata = snapshot.metadata
    wanted, found = request.partition_by, metadata.partition_columns
    if wanted is None or [name.lower() for name in wanted] == [name.lower() for name in found]:
        return metadata
    if request.schema_mode != "overwrite":
        raise ConfigError(
            "partition_by",
            f"the table is partitioned by {list(found)}, not {list(wanted)}; only "
            'mode="overwrite" with schema_mode="overwrite" changes that',
        )
    return replace(metadata, partition_columns=wanted)


def _check_properties(request: WriteRequest, snapshot: SnapshotState) -> None:
    """Refuse properties that the table has not: a write sets them of new tables only."""
    asked = RequestedProperties.parse(request.properties)
    protocol, has = snapshot.protocol, snapshot.metadata.configuration
    unlike = [key for key, text in asked.configuration.items() if has.get(key) != text]
    features = set(asked.features) - supported_by_table(protocol)
    unlike += [f"delta.feature.{name}" for name in sorted(features)]
    if (asked.min_reader_version or 1) > protocol.min_reader_version:
        unlike.append("delta.minReaderVersion")
    if (asked.min_writer_version or 1) > protocol.min_writer_version:
        unlike.append("delta.minWriterVersion")
    for key in unlike:
        reason = f"{key} is not {request.properties[key]!r} in this table"
        raise ConfigError("properties", f"{reason}; use table.alter to set it")


def _total(adds: pa.Table) -> int:
    return int(pc.sum(adds.column("size")).as_py() or 0)
