"""`Table`: the handle users hold. Short methods, each one call into the rooms below."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from lazydelta import changes, checkpoint, operations, scan
from lazydelta._deltalake_names import TABLE_NAMES, no_attribute
from lazydelta._html import table_html
from lazydelta.config import (
    Config,
    ReadOptions,
    Strategy,
    WriteOptions,
    check_options,
    validate_integer,
)
from lazydelta.errors import ConfigError
from lazydelta.log import open_log_store
from lazydelta.outputs import Outputs
from lazydelta.snapshot import load_snapshot, read_history, version_at
from lazydelta.store import is_local
from lazydelta.table.file_layout import FileLayout
from lazydelta.table.public_snapshot import Snapshot
from lazydelta.table.row_changes import RowChanges
from lazydelta.table.table_maintenance import Maintenance

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from lazydelta.checkpoint import CheckpointResult, CompactionResult
    from lazydelta.operations import Alter, Columns, CreateMode, WriteMode, WriteResult
    from lazydelta.protocol import TableMetadata
    from lazydelta.scan import Bundle, Scan, TableCheck, Where
    from lazydelta.schema import StructType
    from lazydelta.snapshot import HistoryEntry, SnapshotState
    from lazydelta.store import Store
    from lazydelta.store.cloud import Credential

__all__ = ["Table"]


class Table(RowChanges, FileLayout, Maintenance, Outputs):
    """A Delta table at an address. Opening one costs nothing and keeps no state of the table.

    Its properties and outputs (`schema`, `to_arrow`, `to_duckdb`, ...) are those of the newest
    version. Each reads the log anew; to read several of one version, take a `snapshot()` first.
    """

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config
        self._latest: SnapshotState | None = None  # of a remote table: only newer commits are read

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        config: Config | None = None,
        *,
        credential: Credential | None = None,
        store: Any = None,
    ) -> Self:
        """Return a handle on the table at a path or URL; nothing is read yet.

        Args:
            url: A local path, or an `abfss://`, `az://`, `s3://`, `gs://`, `https://` or `file://`
                URL.
            storage_options: Options of the object store, including credentials.
            config: Engine settings; by default those of the `LAZYDELTA_*` environment variables.
            credential: Signs in instead of `storage_options`: a function that returns a token or
                keys, and their expiry if it is known, or a credential of azure-identity. It is
                called again before they expire.
            store: Sends the requests instead of a client of its own: a store of obstore, or a
                filesystem of fsspec. `url` is the table's address all the same.
        """
        config = Config.from_env() if config is None else config
        check_options("config", config, Config)
        opened = open_log_store(url, storage_options, config, credential=credential, store=store)
        return cls(opened, config)

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        schema: Columns,
        *,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        constraints: Mapping[str, str] | None = None,
        mode: CreateMode = "error",
        storage_options: Mapping[str, Any] | None = None,
        config: Config | None = None,
        credential: Credential | None = None,
    ) -> Self:
        """Create an empty table, and return a handle on it.

        Args:
            url: The address, as for `open`.
            schema: A `pyarrow.Schema`, SQL (`"id bigint not null, day date"`), a `StructType`, the
                JSON of a Delta schema, or a mapping of names to types.
            partition_by: The names of the partition columns.
            cluster_by: The names of the clustering columns, by which `optimize` arranges rows.
            properties: Table properties. The protocol is the lowest that they and the columns
                need.
            name: The table's name, for display.
            description: The table's description, for display.
            constraints: CHECK constraints: SQL expressions by name.
            mode: If the table exists: "error", "ignore" if it has the same columns, or "replace":
                its rows, columns and properties go in the same commit.
            storage_options: Options of the object store.
            config: Engine settings.
            credential: Signs in, as for `open`.

        Raises:
            TableExistsError: The table exists.
            SchemaError: No table can have these columns or this partitioning.
            ConfigError: A property is unknown or has an invalid value.
        """
        table = cls.open(url, storage_options, config, credential=credential)
        operations.create_table(
            table._store,  # noqa: SLF001 - a table that this method opened
            table._config,  # noqa: SLF001 - likewise
            operations.as_schema(schema, where=table.url),
            mode=mode,
            partition_by=partition_by,
            cluster_by=(cluster_by,) if isinstance(cluster_by, str) else cluster_by,
            properties=properties,
            name=name,
            description=description,
            constraints=constraints,
        )
        return table

    @classmethod
    def open_bundle(
        cls,
        bundle: Bundle | str | bytes,
        storage_options: Mapping[str, Any] | None = None,
        config: Config | None = None,
        *,
        verify: bool = True,
        credential: Credential | None = None,
    ) -> Snapshot:
        """Return exactly the snapshot that was pinned.

        Args:
            bundle: The result of `snapshot.pin()`, or its JSON.
            storage_options: Options of the object store; a bundle never contains them.
            config: Engine settings.
            verify: Whether to compare the pinned hashes, which reads the version's commit.
            credential: Signs in, as for `open`.

        Raises:
            VersionCleanedUpError: Log cleanup removed commits that the version needs.
            BundleMismatchError: The version exists but differs from the pinned one.
        """
        if not isinstance(bundle, scan.Bundle):
            bundle = scan.Bundle.from_json(bundle)
        table = cls.open(bundle.table_uri, storage_options, config, credential=credential)
        snapshot = table.snapshot(bundle.resolved_version)
        if verify:
            scan.check_bundle(bundle, snapshot)
        return snapshot

    @property
    def url(self) -> str:
        """The table's address, without secrets."""
        return self._store.root

    def __repr__(self) -> str:
        return f"Table({self.url!r})"

    _repr_html_ = table_html

    @property
    def alter(self) -> Alter:
        """Methods that change columns, properties, constraints and protocol; one commit each."""
        return operations.Alter(self._store, self._config)

    def snapshot(
        self, version: int | None = None, timestamp: datetime | str | None = None
    ) -> Snapshot:
        """Return one version of the table: the newest, or the one of a version or timestamp.

        Args:
            version: The version number.
            timestamp: Select the version that was current at this time; naive times are UTC.

        Raises:
            VersionNotCommittedError: The version does not exist yet.
            VersionCleanedUpError: Log cleanup removed commits that the version needs.
            TimestampNotFoundError: No readable version was current at that time.
        """
        if version is not None and timestamp is not None:
            raise ConfigError("timestamp", "give a version or a timestamp, not both")
        version = _checked_version(version)
        if timestamp is not None:
            version = version_at(self._store, self._config, timestamp)
        state = load_snapshot(self._store, self._config, version=version, previous=self._latest)
        if version is None and not is_local(self._store):
            self._latest = state
        known = {f.name: getattr(state, f.name) for f in fields(state)}
        return Snapshot(**known, requested_timestamp=timestamp)

    @property
    def version(self) -> int:
        """The newest version."""
        return self.snapshot().version

    @property
    def schema(self) -> StructType:
        """The schema of the newest version; `schema.to_arrow()` is its Arrow form."""
        return self.snapshot().schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the top-level columns of the newest version."""
        return self.snapshot().columns

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the newest version: id, name, partition columns, properties."""
        return self.snapshot().metadata

    def scan(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: Strategy = "auto",
        *,
        options: ReadOptions | None = None,
    ) -> Scan:
        """Describe a scan of the newest version; see `Snapshot.scan`.

        `limit` is the maximum number of rows to read. To list fewer files, use
        `scan().files(limit=...)`.
        """
        return self.snapshot().scan(where, columns, limit, strategy, options=options)

    def count(self, where: Where = None) -> int:
        """Return the number of matching rows, from the log alone where that is exact."""
        return self.snapshot().count(where)

    def head(self, n: int = 10) -> pa.Table:
        """Return the first `n` rows; no more files are read than they need."""
        return self.snapshot().head(n)

    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return all rows of the newest version as a `RecordBatchReader`."""
        return self.scan().to_reader(options)

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows of the newest version as one Arrow table."""
        return self.scan().to_arrow(options)

    def changes(
        self,
        *,
        starting_version: int | None = None,
        ending_version: int | None = None,
        starting_timestamp: datetime | str | None = None,
        ending_timestamp: datetime | str | None = None,
        columns: Sequence[str] | None = None,
        where: Where = None,
        allow_out_of_range: bool = False,
        options: ReadOptions | None = None,
    ) -> changes.ChangeFeed:
        """Return the rows that changed in a range of versions or times, both ends inclusive.

        Besides the table's columns each row has `_change_type` (`insert`, `delete`,
        `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`. The feed
        is a reader, and has the outputs of a scan (`to_arrow`, `to_duckdb`, ...).

        Args:
            starting_version: The first version; 0 by default.
            ending_version: The last version; the newest by default.
            starting_timestamp: Start at the first version at or after this time (naive: UTC).
            ending_timestamp: End at the last version at or before this time.
            columns: The columns to read, in this order; the three change columns are allowed.
            where: Only changes that match; the three change columns are allowed.
            allow_out_of_range: Whether a range past the newest version is cut instead of refused.
            options: How rows are read and presented.

        Raises:
            ChangeFeedDisabledError: A version of the range has no change data feed.
            ChangeFeedSchemaError: The schema changed incompatibly within the range.
        """
        requested = changes.RequestedRange(
            starting_version=starting_version,
            ending_version=ending_version,
            starting_timestamp=starting_timestamp,
            ending_timestamp=ending_timestamp,
            allow_out_of_range=allow_out_of_range,
        )
        return changes.find_changes(
            self._store, self._config, requested, columns=columns, where=where, options=options
        )

    def write(
        self,
        data: Any,
        mode: WriteMode = "append",
        *,
        where: Where = None,
        partition_by: Sequence[str] | str | None = None,
        schema_mode: Literal["merge", "overwrite"] | None = None,
        properties: Mapping[str, Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        options: WriteOptions | None = None,
    ) -> WriteResult:
        """Write rows as one new version; the first write creates the table.

        The default mode is "append" because it never removes rows: rows that do not fit the schema
        are refused, and a second call adds a version that can be inspected and undone.

        Args:
            data: Arrow, pandas, Polars (also lazy) or DuckDB data, a `Scan`, a dict of columns, or
                an iterable of these. A stream is written batch by batch.
            mode: "append"; "overwrite" to replace all rows, or those that match `where`; "error"
                to refuse, or "ignore" to do nothing, if the table exists.
            where: Which rows an overwrite replaces; every new row must match it.
            partition_by: The partition columns of a new table.
            schema_mode: How rows with other columns are handled: refused (None), "merge" the new
                columns into the schema, or "overwrite" the schema together with all rows.
            properties: Table properties of a new table.
            name: The name of a new table, for display.
            description: The description of a new table, for display.
            app_id: With `app_version`: makes the write idempotent. A version that the table
                already has for this application is not written again.
            app_version: The version of the application's transaction; it must increase.
            commit_metadata: User metadata for the commit, shown by `history()`.
            options: How data files are written.

        Raises:
            TableExistsError: The table exists, and the mode is "error".
            SchemaMismatchError: The rows do not fit the schema; the error lists the differences.
            ConstraintViolationError: Rows violate a constraint; nothing is committed.
            IdentityExhaustedError: An identity column has too few values left.
            CommitConflictError: A concurrent commit conflicts with this one.
            UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        """
        columns = (partition_by,) if isinstance(partition_by, str) else partition_by
        request = operations.WriteRequest(
            mode=mode,
            partition_by=None if columns is None else tuple(columns),
            schema_mode=schema_mode,
            where=where,
            properties=properties or {},
            name=name,
            description=description,
            app_id=app_id,
            app_version=app_version,
            commit_metadata=commit_metadata or {},
            options=options,
        )
        return operations.write_rows(
            self._store, self._config, data, request, known=self._latest, remember=self._remember
        )

    def __getstate__(self) -> dict[str, Any]:
        """Drop the last snapshot: it belongs to this process."""
        return {**self.__dict__, "_latest": None}

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the retained commits, newest first.

        `timestamp` of an entry is the time that `snapshot(timestamp=...)` uses for that version.

        Args:
            limit: The maximum number of commits.
        """
        if limit is not None:
            validate_integer("limit", limit, 0)
        return read_history(self._store, self._config, limit=limit)

    def check(self, version: int | None = None) -> TableCheck:
        """Check whether the table can be read, and whether its newest `.crc` matches its log."""
        version = _checked_version(version)
        return scan.check_table(self._store, self._config, version=version)

    def checkpoint(self, version: int | None = None) -> CheckpointResult:
        """Write a checkpoint of a version, the newest by default, sorted for data skipping.

        Commits write one every `delta.checkpointInterval` versions. Add actions are sorted by
        partition, then by the clustering or first columns, so that a selective scan reads few row
        groups; any reader can read it. Memory is bounded for any table size.

        Raises:
            UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
            LogCorruptError: The log contradicts its `.crc` or an existing checkpoint.
        """
        version = _checked_version(version)
        return checkpoint.write_checkpoint(
            load_snapshot(self._store, self._config, version=version)
        )

    def compact_log(self, start: int, end: int) -> CompactionResult:
        """Write a log compaction file for the commits `start` to `end`, both inclusive.

        Raises:
            ConfigError: The range has fewer than two versions.
            LogGapError: A commit of the range is missing.
        """
        first, last = validate_integer("start", start), validate_integer("end", end)
        return checkpoint.compact_log(self._store, self._config, first, last)

    if not TYPE_CHECKING:  # type checkers report unknown attributes themselves

        def __getattr__(self, name: str) -> NoReturn:
            """Name our attribute where the caller uses one of deltalake."""
            raise no_attribute("'Table' object", name, TABLE_NAMES)


def _checked_version(version: int | None) -> int | None:
    if version is None:
        return None
    number = validate_integer("version", version)
    if number < 0:
        raise ConfigError("version", f"cannot be {version}: versions start at 0")
    return number
