"""`ServedTables`: the tables of a configuration, opened by name for a principal."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazydelta._cancellation import is_cancelled
from lazydelta.config import Config, ReadOptions
from lazydelta.errors import ConfigError, ScanCancelledError, ServedTableNotFoundError
from lazydelta.serving import tuning
from lazydelta.snapshot import SnapshotState
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lazydelta.serving.access import Access
    from lazydelta.serving.config import ServeConfig
    from lazydelta.serving.principal import Principal
    from lazydelta.store import Store
    from lazydelta.table import Snapshot

__all__ = ["ServedTables", "engine_config"]

_BELOW_A_ROOT = re.compile(r"(?!\.\.?(?:/|$))[\w=.-]+(?:/(?!\.\.?(?:/|$))[\w=.-]+)*", re.ASCII)


_STATE = fields(SnapshotState)


class _Pinned:
    """The last used snapshots of all tables. Thread-safe.

    A version never changes, but log cleanup removes it and another table may take its place, so
    they are used for a limited time after the log was listed. A snapshot has the store, and so the
    credentials, of its table: another entry with the same address does not share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[tuple[Table, int], Snapshot] = OrderedDict()

    def get(self, table: Table, version: int) -> Snapshot | None:
        with self._lock:
            found = self._snapshots.get((table, version))
            if found is None:
                return None
            if time.time() - found.listed_ms / 1000 > tuning.PINNED_SECONDS:
                del self._snapshots[table, version]
                return None
            self._snapshots.move_to_end((table, version))
            return found

    def keep(self, table: Table, snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshots[table, snapshot.version] = snapshot
            self._snapshots.move_to_end((table, snapshot.version))
            while len(self._snapshots) > tuning.PINNED_AT_MOST:
                self._snapshots.popitem(last=False)


class _ServedTable(Table):
    """A table whose scans share snapshots, and so commits, footers and the keys of the tail."""

    def __init__(self, store: Store, config: Config) -> None:
        super().__init__(store, config)
        self.pinned = _Pinned()
        self._listing = threading.Lock()
        self._listed_from = -1.0
        self._newest: Future[Snapshot] = Future()

    def snapshot(
        self, version: int | None = None, timestamp: datetime | str | None = None
    ) -> Snapshot:
        if timestamp is not None:
            return super().snapshot(version, timestamp)
        if version is None:
            return self._newest_snapshot()
        found = self.pinned.get(self, version)
        if found is None:
            found = super().snapshot(version)
            self.pinned.keep(self, found)
        return found

    def _newest_snapshot(self) -> Snapshot:
        """Return the newest version; requests that wait at the same time share one listing."""
        arrived = time.monotonic()
        while not self._listing.acquire(timeout=tuning.POLL_SECONDS):
            if is_cancelled():
                raise ScanCancelledError
        try:
            if self._listed_from < arrived:  # it may lack a commit that the client knows
                self._listed_from, self._newest = time.monotonic(), Future()
                self._list()
            newest = self._newest
        finally:
            self._listing.release()
        return newest.result()

    def _list(self) -> None:
        try:
            self._newest.set_result(self._listed())
        except BaseException as error:  # noqa: BLE001 - raised in all threads that wait
            self._newest.set_exception(error)
            if is_cancelled():  # not the others: the next one lists
                self._listed_from = -1.0

    def _listed(self) -> Snapshot:
        """Return the newest version, and keep it on local disks too."""
        found = super().snapshot()
        self._latest = SnapshotState(**{f.name: getattr(found, f.name) for f in _STATE})
        self.pinned.keep(self, found)
        return found


def engine_config(config: ServeConfig) -> Config:
    """Return the engine settings of a server: batches and read-ahead within its limits."""
    limits = config.limits
    try:
        base = Config(**{**tuning.SCAN_SETTINGS, **config.engine})
    except TypeError as error:
        raise ConfigError("engine", str(error).partition("() ")[2]) from error
    return replace(
        base,
        batch_rows=limits.batch_files,
        read=ReadOptions(batch_rows=limits.batch_rows, memory_limit=limits.scan_memory),
        resume_key=config.resume_key,
    )


class ServedTables:
    """One handle for each table. Thread-safe; a handle keeps the last snapshot if it is remote."""

    def __init__(self, config: ServeConfig, access: Access) -> None:
        self._entries = {entry.name: entry for entry in config.tables}
        self._roots = {entry.name: entry for entry in config.roots}
        self._config = engine_config(config)
        self._access = access
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Table] = OrderedDict()
        self._pinned = _Pinned()

    def names(self, principal: Principal) -> list[str]:
        """Return the tables that a principal may read, sorted; those below roots are not listed."""
        return sorted(name for name in self._entries if self._access.may_read(principal, name))

    def open(self, principal: Principal, name: str) -> Table:
        """Return the handle of a table.

        Raises:
            ServedTableNotFoundError: The principal may not read it, or there is no such table.
        """
        self._access.check(principal, name)
        with self._lock:
            table = self._open.get(name)
            if table is None:
                table = self._open[name] = self._opened(name)
            self._open.move_to_end(name)
            while len(self._open) > max(tuning.OPEN_TABLES_AT_MOST, len(self._entries)):
                self._open.popitem(last=False)
        return table

    def _opened(self, name: str) -> Table:
        if (entry := self._entries.get(name)) is not None:
            return self._table(entry.url, entry.options)
        first, _, path = name.partition("/")
        root = self._roots.get(first)
        if root is None or not _BELOW_A_ROOT.fullmatch(path):
            raise ServedTableNotFoundError(name)
        url = f"{root.url.rstrip('/')}/{path}"
        if "://" not in url and not Path(url).resolve().is_relative_to(Path(root.url).resolve()):
            raise ServedTableNotFoundError(name)  # a symbolic link out of the root
        return self._table(url, root.options)

    def _table(self, url: str, options: Mapping[str, Any]) -> Table:
        table = _ServedTable.open(url, options or None, self._config)
        table.pinned = self._pinned
        return table
