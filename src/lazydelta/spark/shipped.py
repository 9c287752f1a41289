"""A snapshot on its way to another process, and the rows it gives there.

All of a snapshot travels but its store, which holds connections and secrets: where the table is
travels instead, and the name of a file with storage options. Nothing here grows with the table.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError, StoreAccessError
from lazydelta.log import CheckpointHint, Checksum, CommitReader, LogSegment
from lazydelta.protocol import PathResolver, TableMetadata, TableProperties, TableProtocol
from lazydelta.schema import parse_schema
from lazydelta.snapshot import Snapshot
from lazydelta.spark.conf import STORAGE_OPTIONS_FILE
from lazydelta.store import MeteredStore, RetryingStore, is_local, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = ["Address", "ShippedSnapshot", "open_here"]


def open_here(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    config: Config,
    options_file: str | None,
) -> Store:
    """Return the store of a table that executors will open too.

    Args:
        url: The table's address.
        storage_options: Settings of the store for this process alone; None takes those that
            executors have.
        config: Settings of the engine.
        options_file: Where executors find their storage options, if they have such a file.

    Raises:
        ConfigError: Only this process would have credentials.
    """
    if storage_options is None:
        store = Address(root=os.fspath(url), config=config, options_file=options_file).open()
    else:
        store = open_store(url, storage_options)
        if not is_local(store):
            _require_file(options_file)
            store = RetryingStore(store, config)
    return store if config.observer is None else MeteredStore(store, config.observer)


def _require_file(options_file: str | None) -> None:
    if options_file is None:
        reason = (
            "reach this process only: executors take theirs from their environment, or from "
            f"a JSON file that the session's {STORAGE_OPTIONS_FILE} names"
        )
        raise ConfigError("storage_options", reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a table is, for whoever is to open it: no secret is part of it.

    Args:
        root: A path or URL.
        config: Settings of the engine.
        options_file: Where a process that opens the table finds its storage options, as a JSON
            object; None leaves them to its environment.
    """

    root: str
    config: Config
    options_file: str | None = None

    @classmethod
    def of(cls, store: Store, config: Config, options_file: str | None) -> Address:
        """Return where a table is that is open here; the caller's observer and guard stay here.

        Raises:
            ConfigError: Nobody else could open its store.
        """
        try:
            open_store(store.root)
        except StoreAccessError:
            pass  # whoever has the options can
        except ConfigError as error:
            reason = f"executors cannot open {store.root}: {error.reason}"
            raise ConfigError("snapshot", reason) from None
        config = replace(config, observer=None, retention_guard=None)
        return cls(root=store.root, config=config, options_file=options_file)

    def open(self) -> Store:
        """Return the table's store.

        Raises:
            ConfigError: The file with storage options is not there, or holds something else.
        """
        store = open_store(self.root, self._options())
        return store if is_local(store) else RetryingStore(store, self.config)

    def _options(self) -> dict[str, str] | None:
        if self.options_file is None:
            return None
        try:
            found = json.loads(Path(self.options_file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            # Not the error's own text: that of a JSON error may show what is in the file.
            reason = f"{self.options_file} cannot be read as JSON: {type(error).__name__}"
            raise ConfigError("storageOptionsFile", reason) from None
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            reason = f"{self.options_file} must hold a JSON object of texts"
            raise ConfigError("storageOptionsFile", reason)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedSnapshot:
    """One version of a table, without its store."""

    address: Address
    segment: LogSegment
    protocol: TableProtocol
    metadata: TableMetadata
    checksum: Checksum | None
    hint: CheckpointHint | None

    @classmethod
    def of(cls, snapshot: Snapshot, options_file: str | None) -> ShippedSnapshot:
        """Return what travels of a snapshot.

        Raises:
            ConfigError: Nobody else could open its store.
        """
        return cls(
            address=Address.of(snapshot.store, snapshot.config, options_file),
            segment=snapshot.segment,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            checksum=snapshot.checksum,
            hint=snapshot.hint,
        )

    @property
    def version(self) -> int:
        """The version of the table."""
        return self.segment.version

    def open(self, store: Store | None = None) -> Snapshot:
        """Return the snapshot, in this process; nothing is read.

        Args:
            store: The table's, if it is open here already.
        """
        store = self.address.open() if store is None else store
        config = self.address.config
        return Snapshot(
            store=store,
            config=config,
            segment=self.segment,
            protocol=self.protocol,
            metadata=self.metadata,
            schema=parse_schema(self.metadata.schema_string, where=store.root),
            properties=TableProperties.parse(self.metadata.configuration),
            resolver=PathResolver(store.root, config.allowed_roots),
            commits=CommitReader(store, config),
            checksum=self.checksum,
            hint=self.hint,
        )
