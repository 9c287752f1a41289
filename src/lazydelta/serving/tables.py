"""`ServedTables`: the tables of a configuration, opened by name for a principal."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lazydelta.config import Config, ReadOptions
from lazydelta.errors import ConfigError, ServedTableNotFoundError
from lazydelta.serving import tuning
from lazydelta.snapshot import SnapshotState
from lazydelta.table import Table

if TYPE_CHECKING:
    from datetime import datetime

    from lazydelta.serving.access import Access
    from lazydelta.serving.config import ServeConfig
    from lazydelta.serving.principal import Principal
    from lazydelta.table import Snapshot

__all__ = ["ServedTables", "engine_config"]

_BELOW_A_ROOT = re.compile(r"(?!\.\.?(?:/|$))[\w=.-]+(?:/(?!\.\.?(?:/|$))[\w=.-]+)*", re.ASCII)


_STATE = fields(SnapshotState)


class _ServedTable(Table):
    """A table that keeps its last snapshot on local disks too: all scans share its commits."""

    def snapshot(
        self, version: int | None = None, timestamp: datetime | str | None = None
    ) -> Snapshot:
        found = super().snapshot(version, timestamp)
        if version is None and timestamp is None:
            self._latest = SnapshotState(**{f.name: getattr(found, f.name) for f in _STATE})
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
            return _ServedTable.open(entry.url, entry.options or None, self._config)
        first, _, path = name.partition("/")
        root = self._roots.get(first)
        if root is None or not _BELOW_A_ROOT.fullmatch(path):
            raise ServedTableNotFoundError(name)
        url = f"{root.url.rstrip('/')}/{path}"
        if "://" not in url and not Path(url).resolve().is_relative_to(Path(root.url).resolve()):
            raise ServedTableNotFoundError(name)  # a symbolic link out of the root
        return _ServedTable.open(url, root.options or None, self._config)
