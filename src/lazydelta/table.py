"""`Table`: the handle users hold. Short methods, each one call into the rooms below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from lazydelta import checkpoint, operations
from lazydelta._html import table_html
from lazydelta.changes import ChangeFeed, RequestedRange, find_changes
from lazydelta.config import (
    Config,
    ReadOptions,
    Strategy,
    WriteOptions,
    check_options,
    given_number,
)
from lazydelta.errors import ConfigError
from lazydelta.outputs import Outputs
from lazydelta.protocol import Retention
from lazydelta.scan import Bundle, Scan, TableCheck, Where, check_bundle, check_table, pin
from lazydelta.snapshot import HistoryEntry, Snapshot, load_snapshot, read_history, version_at
from lazydelta.store import MeteredStore, RetryingStore, Store, is_local, open_store

if TYPE_CHECKING:
    import os
    from datetime import datetime

    import pyarrow as pa

    from lazydelta.checkpoint import CheckpointResult, CompactionResult
    from lazydelta.operations import Alter, Columns, CreateMode, WriteMode, WriteResult
    from lazydelta.protocol import RetentionCheck
    from lazydelta.scan.plan import ScanFile

__all__ = ["Table", "TableSnapshot", "write"]

PartitionFilters = Sequence[Any] | None


@dataclass(frozen=True, kw_only=True, repr=False)
class TableSnapshot(Snapshot, Outputs):
    """One version of a table, ready to be scanned, or to be read as a whole (`to_arrow`, ...)."""

    chosen_by: datetime | str | None = None
    """The time that it was asked for by; None if it was asked for by number, or as the newest."""

    def scan(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: Strategy = "auto",
        *,
        options: ReadOptions | None = None,
    ) -> Scan:
        """Describe a scan of this version; nothing is read until it is iterated."""
        return Scan(
            self, where=where, columns=columns, limit=limit, strategy=strategy, options=options
        )

    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return all rows of this version as a reader."""
        return self.scan().to_reader(options)

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows of this version as one table."""
        return self.scan().to_arrow(options)

    def pin(self) -> Bundle:
        """Return a small JSON-able bundle that opens exactly this snapshot again, anywhere.

        Costs one read of the version's commit, whatever the number of files.
        """
        return pin(self, timestamp=self.chosen_by)

    def check_retention(self, window: timedelta) -> RetentionCheck:
        """Judge whether versions as old as `window` stay readable in this table."""
        if not isinstance(window, timedelta):
            raise ConfigError("window", f"must be a timedelta, not {window!r}")
        return Retention.parse(self.metadata.configuration).check(window)


class Table(Outputs):
    """A Delta table at an address. Opening one costs nothing and keeps no state of the table.

    Its outputs (`to_arrow`, `scan_polars`, `to_duckdb`, ...) are those of the newest version.
    """

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        config: Config | None = None,
    ) -> Self:
        """Return a handle on the table at a path or URL; nothing is read yet.

        Args:
            url: A local path, or an `abfss://`, `az://`, `s3://`, `gs://`, `https://` or `file://`
                URL.
            storage_options: Settings of the store, credentials among them.
            config: Settings of the engine; by default those of the `LAZYDELTA_*` environment.
        """
        config = Config.from_env() if config is None else config
        check_options("config", config, Config)
        store = open_store(url, storage_options)
        if not is_local(store):
            store = RetryingStore(store, config)
        if config.observer is not None:
            store = MeteredStore(store, config.observer)
        return cls(store, config)

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        schema: Columns,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        constraints: Mapping[str, str] | None = None,
        mode: CreateMode = "error",
        storage_options: Mapping[str, str] | None = None,
        config: Config | None = None,
    ) -> Self:
        """Create a table without rows, and return a handle on it.

        Args:
            url: Where, as for `open`.
            schema: Its columns: a `pyarrow.Schema`, SQL text (`"id bigint not null, day date"`),
                a `StructType`, a schema's JSON, or a map of names to types.
            partition_by: Names of the columns to partition by.
            properties: Table properties; the protocol is the lowest that they and the columns
                need.
            name: A name for people.
            description: A text for people.
            constraints: CHECK constraints, SQL expressions by name.
            mode: What to do if there is a table: "error", or "ignore" if it has these columns.
            storage_options: Settings of the store.
            config: Settings of the engine.

        Raises:
            TableExistsError: There is a table.
            SchemaError: Columns or partitioning that no table can have.
            ConfigError: A property that does not exist or does not take this value.
        """
        table = cls.open(url, storage_options, config)
        operations.create_table(
            table._store,  # noqa: SLF001 - a table of our own making
            table._config,  # noqa: SLF001 - likewise
            operations.as_schema(schema, where=table.url),
            mode=mode,
            partition_by=partition_by,
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
        storage_options: Mapping[str, str] | None = None,
        config: Config | None = None,
        *,
        verify: bool = True,
    ) -> TableSnapshot:
        """Return exactly the snapshot that was pinned.

        Args:
            bundle: From `snapshot.pin()`, or its JSON.
            storage_options: Settings of the store; a bundle never holds any.
            config: Settings of the engine.
            verify: Whether to compare the pinned hashes, which reads the version's commit.

        Raises:
            VersionCleanedUpError: Log cleanup took the commits it needs.
            BundleMismatchError: The version is there but is not what was pinned.
        """
        if not isinstance(bundle, Bundle):
            bundle = Bundle.from_json(bundle)
        table = cls.open(bundle.table_uri, storage_options, config)
        snapshot = table.snapshot(bundle.resolved_version)
        if verify:
            check_bundle(bundle, snapshot)
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
        """The verbs that change columns, properties, constraints and protocol; a commit each."""
        return operations.Alter(self._store, self._config)

    def snapshot(
        self, version: int | None = None, timestamp: datetime | str | None = None
    ) -> TableSnapshot:
        """Return one version of the table: the newest, a numbered one, or the one of a time.

        Raises:
            ConfigError: The version is negative.
            VersionNotCommittedError: The version does not exist yet.
            VersionCleanedUpError: Log cleanup removed what would rebuild it.
            TimestampNotFoundError: No readable version was current then.
        """
        if version is not None and timestamp is not None:
            raise ConfigError("timestamp", "give a version or a timestamp, not both")
        version = _checked_version(version)
        if timestamp is not None:
            version = version_at(self._store, self._config, timestamp)
        state = load_snapshot(self._store, self._config, version=version)
        known = {f.name: getattr(state, f.name) for f in fields(state)}
        return TableSnapshot(**known, chosen_by=timestamp)

    def version(self) -> int:
        """Return the newest version."""
        return self.snapshot().version

    def scan(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: Strategy = "auto",
        *,
        options: ReadOptions | None = None,
    ) -> Scan:
        """Describe a scan of the newest version; no file action is read until it is iterated."""
        return self.snapshot().scan(where, columns, limit, strategy, options=options)

    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return all rows of the newest version as a reader."""
        return self.scan().to_reader(options)

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows of the newest version as one table."""
        return self.scan().to_arrow(options)

    def changes(
        self,
        *,
        start_version: int | None = None,
        end_version: int | None = None,
        start_timestamp: datetime | str | None = None,
        end_timestamp: datetime | str | None = None,
        columns: Sequence[str] | None = None,
        where: Where = None,
        allow_out_of_range: bool = False,
        options: ReadOptions | None = None,
    ) -> ChangeFeed:
        """Return the rows that changed in a range of versions or times, both ends inclusive.

        Beside the table's columns each row has `_change_type` (`insert`, `delete`,
        `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`. The
        feed has the outputs of a scan (`to_arrow`, `to_duckdb`, ...); each reads from the start.

        Args:
            start_version: The first version; 0 by default.
            end_version: The last version; the newest by default.
            start_timestamp: Begin with the first version at or after this time (naive: UTC).
            end_timestamp: End with the last version at or before this time.
            columns: What to show, in this order, of the table's columns and those three.
            where: Only changes that match; it may name those three as well.
            allow_out_of_range: Whether a range may reach, or lie, past the newest version.
            options: How rows are read and shown.
        """
        asked = RequestedRange(
            start_version=start_version,
            end_version=end_version,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            allow_out_of_range=allow_out_of_range,
        )
        return find_changes(
            self._store, self._config, asked, columns=columns, where=where, options=options
        )

    def write(
        self,
        data: Any,
        mode: WriteMode = "append",
        *,
        partition_by: Sequence[str] | str | None = None,
        schema_mode: Literal["merge", "overwrite"] | None = None,
        predicate: Where = None,
        properties: Mapping[str, Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        options: WriteOptions | None = None,
    ) -> WriteResult:
        """Write rows as one new version; the first write creates the table.

        Args:
            data: Anything with rows: Arrow, pandas, Polars (lazy too), DuckDB, a `Scan`, a dict of
                columns, or an iterable of such parts. Streams are written as they come.
            mode: "append", or "overwrite" to replace all rows or those that match `predicate`;
                where there is a table, "error" refuses and "ignore" does nothing.
            partition_by: Names of the columns to partition a new table by.
            schema_mode: What to do if the rows have other columns: refuse (None), "merge" them in,
                or "overwrite" the table's schema together with all its rows.
            predicate: Which rows an overwrite replaces; every new row must match it.
            properties: Table properties of a new table.
            name: A name for people, of a new table.
            description: A text for people, of a new table.
            app_id: With `app_version`: a step of an application, which is written only once.
            app_version: The number of the step; it grows.
            commit_metadata: Facts of the caller's own, kept in the table's history.
            options: How files are written.

        Raises:
            TableExistsError: There is a table, and the mode is "error".
            SchemaMismatchError: The rows do not fit the table; the text shows how.
            ConstraintViolationError: Rows break a rule of the table; nothing was committed.
            IdentityExhaustedError: The table has not enough numbers left for the rows.
            CommitConflictError: Another writer's commit contradicts this one.
            UnsupportedFeatureError: The table needs what lazydelta cannot write.
        """
        columns = (partition_by,) if isinstance(partition_by, str) else partition_by
        request = operations.WriteRequest(
            mode=mode,
            partition_by=None if columns is None else tuple(columns),
            schema_mode=schema_mode,
            predicate=predicate,
            properties=properties or {},
            name=name,
            description=description,
            app_id=app_id,
            app_version=app_version,
            commit_metadata=commit_metadata or {},
            options=options,
        )
        return operations.write_rows(self._store, self._config, data, request)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the retained commits, newest first, all of them or at most `limit`.

        `timestamp` of an entry is the time that `snapshot(timestamp=...)` uses for that version.
        """
        if limit is not None and given_number("limit", limit) < 0:
            raise ConfigError("limit", f"must be at least 0, not {limit}")
        return read_history(self._store, self._config, limit=limit)

    def check(self, version: int | None = None) -> TableCheck:
        """Judge the table: can it be read, and does its newest `.crc` agree with its log?"""
        version = _checked_version(version)
        return check_table(self._store, self._config, version=version)

    def checkpoint(self, version: int | None = None) -> CheckpointResult:
        """Write the checkpoint of a version, the newest by default, laid out to be skipped.

        Commits write one every `delta.checkpointInterval` versions by themselves. Files are sorted
        by partition, then by the clustering or first columns, so that a selective plan reads
        little; it is legal for every reader. Memory is bounded, whatever the size of the table.

        Raises:
            UnsupportedFeatureError: The table needs what lazydelta cannot write.
            LogCorruptError: The log contradicts its own `.crc`, or a checkpoint that is there.
        """
        version = _checked_version(version)
        return checkpoint.write_checkpoint(
            load_snapshot(self._store, self._config, version=version)
        )

    def compact_log(self, start: int, end: int) -> CompactionResult:
        """Write the commits of two or more versions, reconciled, into one file beside them.

        Raises:
            ConfigError: The range has less than two versions.
            LogGapError: A commit of the range is not there.
        """
        first, last = given_number("start", start), given_number("end", end)
        return checkpoint.compact_log(self._store, self._config, first, last)

    def files(self, partition_filters: PartitionFilters = None) -> list[str]:
        """Return the paths of the newest version's files, as the log has them, decoded.

        Args:
            partition_filters: DNF tuples, as in `[("year", "=", "2026"), ("month", "in", ["1"])]`.
        """
        return _column(self.scan(partition_filters), "path")

    def file_uris(self, partition_filters: PartitionFilters = None) -> list[str]:
        """Return the absolute addresses of the newest version's files."""
        return [file.uri for file in self.scan(partition_filters).files()]

    def file_views(
        self, predicate: Where = None, limit: int | None = None, strategy: Strategy = "auto"
    ) -> list[ScanFile]:
        """Return views of the newest version's files, all at once."""
        return list(self.scan(predicate, limit=limit, strategy=strategy).files())


def write(
    url_or_table: str | os.PathLike[str] | Table,
    data: Any,
    mode: WriteMode = "error",
    *,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    **how: Any,
) -> WriteResult:
    """Write rows to the table at an address, as one new version; see `Table.write`.

    Args:
        url_or_table: A path or URL, as for `Table.open`, or a table.
        data: Anything with rows.
        mode: As for `Table.write`; here a table that exists already is an error by default.
        storage_options: Settings of the store, if an address is given.
        config: Settings of the engine, likewise.
        how: All else that `Table.write` takes.
    """
    if isinstance(url_or_table, Table):
        if storage_options is not None or config is not None:
            raise ConfigError("storage_options", "belong to the table that is given already")
        return url_or_table.write(data, mode, **how)
    return Table.open(url_or_table, storage_options, config).write(data, mode, **how)


def _checked_version(version: int | None) -> int | None:
    if version is None:
        return None
    number = given_number("version", version)
    if number < 0:
        raise ConfigError("version", f"cannot be {version}: versions start at 0")
    return number


def _column(scan: Scan, name: str) -> list[Any]:
    with scan.file_batches() as batches:
        return [value for batch in batches for value in batch.column(name).to_pylist()]
