"""`Table`: the handle users hold. Short methods, each one call into the rooms below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

from lazydelta.changes import AskedRange, ChangeFeed, find_changes
from lazydelta.config import Config, ReadOptions, Strategy
from lazydelta.errors import ConfigError
from lazydelta.outputs import Outputs
from lazydelta.scan import (
    Bundle,
    Scan,
    ScanFile,
    TableCheck,
    Where,
    check_bundle,
    check_table,
    pin,
)
from lazydelta.snapshot import Snapshot, load_snapshot, read_history, version_at
from lazydelta.spec import Retention
from lazydelta.store import MeteredStore, RetryingStore, Store, open_store

if TYPE_CHECKING:
    import os
    from datetime import datetime, timedelta

    import pyarrow as pa

    from lazydelta.spec import CommitInfo, RetentionCheck

__all__ = ["Table", "TableSnapshot"]

PartitionFilters = Sequence[Any] | None


class TableSnapshot(Snapshot, Outputs):
    """One version of a table, ready to be scanned, or to be read as a whole (`to_arrow`, ...)."""

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

    def pin(self) -> Bundle:
        """Return a small JSON-able bundle that opens exactly this snapshot again, anywhere."""
        return pin(self)

    def check_retention(self, window: timedelta) -> RetentionCheck:
        """Judge whether versions as old as `window` stay readable in this table."""
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
        store = open_store(url, storage_options)
        if not store.root.startswith("/"):
            store = RetryingStore(store, config)
        if config.observer is not None:
            store = MeteredStore(store, config.observer)
        return cls(store, config)

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
            verify: Whether to compare the content hash, which reads all files' metadata.

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

    def snapshot(
        self, version: int | None = None, timestamp: datetime | str | None = None
    ) -> TableSnapshot:
        """Return one version of the table: the newest, a numbered one, or the one of a time.

        Raises:
            VersionNotCommittedError: The version does not exist yet.
            VersionCleanedUpError: Log cleanup removed what would rebuild it.
            TimestampNotFoundError: No readable version was current then.
        """
        if version is not None and timestamp is not None:
            raise ConfigError("timestamp", "give a version or a timestamp, not both")
        if timestamp is not None:
            version = version_at(self._store, self._config, timestamp)
        state = load_snapshot(self._store, self._config, version=version)
        return TableSnapshot(**{f.name: getattr(state, f.name) for f in fields(state)})

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
        feed is a reader, and goes wherever a scan goes (`to_arrow`, `to_duckdb`, ...).

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
        asked = AskedRange(
            start_version=start_version,
            end_version=end_version,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            allow_out_of_range=allow_out_of_range,
        )
        return find_changes(
            self._store, self._config, asked, columns=columns, where=where, options=options
        )

    def history(self, limit: int | None = None) -> list[CommitInfo]:
        """Return the retained commits, newest first."""
        return read_history(self._store, self._config, limit=limit)

    def check(self, version: int | None = None) -> TableCheck:
        """Judge the table: can it be read, and does its newest `.crc` agree with its log?"""
        return check_table(self._store, self._config, version=version)

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


def _column(scan: Scan, name: str) -> list[Any]:
    with scan.file_batches() as batches:
        return [value for batch in batches for value in batch.column(name).to_pylist()]
