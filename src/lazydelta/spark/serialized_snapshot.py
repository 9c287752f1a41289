"""Snapshots and table locations that can be pickled, for Spark's other processes.

A store holds connections and secrets, so it is never serialized: the table's location is, and the
path of a file with storage options. The size does not grow with the table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, StoreAccessError
from lazydelta.log import Checksum, CommitReader, LogSegment, open_log_store
from lazydelta.protocol import TableMetadata, TableProperties, TableProtocol
from lazydelta.protocol.paths import PathResolver
from lazydelta.schema import parse_schema
from lazydelta.snapshot import SnapshotState
from lazydelta.spark.conf import STORAGE_OPTIONS_FILE
from lazydelta.store import is_local, open_store
from lazydelta.store.cloud import check_picklable

if TYPE_CHECKING:
    from lazydelta.config import AllowedRoots, Config
    from lazydelta.log.checkpoints import CheckpointHint
    from lazydelta.store import Store
    from lazydelta.store.cloud import Credential

__all__ = ["SerializedSnapshot", "TableLocation", "check_importable", "open_table_store"]


_ROOTS = "allowed_roots"


def open_table_store(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    config: Config,
    options_file: str | None,
    *,
    credential: Credential | None = None,
) -> Store:
    """Open the store of a table that executors will open too.

    Args:
        url: The table's location.
        storage_options: Store settings of this process only; None uses those of the executors.
        config: Engine settings.
        options_file: File from which executors load their storage options, if any.
        credential: A function of a module, which executors import and call too.

    Raises:
        ConfigError: Executors would lack credentials.
    """
    check_importable(credential)
    if storage_options is None:
        return TableLocation(
            root=os.fspath(url), config=config, options_file=options_file, credential=credential
        ).open()
    store = open_log_store(url, storage_options, config, credential=credential)
    if options_file is None and not is_local(store):
        reason = (
            "reach this process only: executors take theirs from their environment, or from "
            f"a JSON file that the session's {STORAGE_OPTIONS_FILE} names"
        )
        raise ConfigError("storage_options", reason)
    return store


def check_importable(credential: Credential | None) -> None:
    """Refuse a credential that would take its secrets along into a plan."""
    check_picklable("credential", credential)
    # Spark pickles functions of `__main__` by value, with the globals that they use.
    if getattr(credential, "__module__", None) == "__main__":
        reason = "must be a function of a module that executors can import, not of __main__"
        raise ConfigError("credential", reason)


def _credential_of(store: Any, options_file: str | None) -> Credential | None:
    """Return the credential provider with which executors sign in as this process does."""
    while (inner := getattr(store, "inner", None)) is not None:
        store = inner
    if options_file is None and getattr(store, "is_bound_to_process", False):
        reason = (
            "reaches this process only: executors take credentials from their environment, or from "
            f"a JSON file that the session's {STORAGE_OPTIONS_FILE} names"
        )
        raise ConfigError("store", reason)
    credential: Credential | None = getattr(store, "credential", None)
    try:
        check_importable(credential)
    except ConfigError:
        if options_file is None:
            raise
        return None  # the file of the executors has another credential
    return credential


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """Location of a table for processes that open it; it holds no secret.

    Args:
        root: A path or URL.
        config: Engine settings.
        options_file: File with the storage options as a JSON object, on the machine that opens
            the table; None uses the environment. Its `allowed_roots` has those of each root.
        credential: A function of a module that returns a token or keys; pickled by name.
    """

    root: str
    config: Config
    options_file: str | None = None
    credential: Credential | None = None

    @classmethod
    def of(cls, store: Store, config: Config, options_file: str | None) -> TableLocation:
        """Return the location of an open store, without the caller's observer and guard.

        Raises:
            ConfigError: No other process can open the store.
        """
        try:
            open_store(store.root)
        except StoreAccessError:
            pass  # it opens with storage options
        except ConfigError as error:
            reason = f"executors cannot open {store.root}: {error.reason}"
            raise ConfigError("snapshot", reason) from None
        credential = _credential_of(store, options_file)
        roots = _without_options(config.allowed_roots, options_file)
        config = replace(config, observer=None, retention_guard=None, allowed_roots=roots)
        return cls(root=store.root, config=config, options_file=options_file, credential=credential)

    def open(self) -> Store:
        """Open the table's store.

        Raises:
            ConfigError: The storage options file is missing or invalid.
        """
        options = {name: one for name, one in self._file().items() if name != _ROOTS}
        return open_log_store(self.root, options or None, self.config, credential=self.credential)

    def local_config(self) -> Config:
        """Return the settings with the storage options of the allowed roots, from the file.

        Raises:
            ConfigError: The storage options file is missing or invalid.
        """
        found = self._file().get(_ROOTS) if self.config.allowed_roots else None
        if found is None:
            return self.config
        roots = self.config.allowed_roots
        return replace(self.config, allowed_roots={root: found.get(root, {}) for root in roots})

    def _file(self) -> dict[str, Any]:
        """Return the storage options, and under `allowed_roots` those of each root."""
        if self.options_file is None:
            return {}
        try:
            parsed = json.loads(Path(self.options_file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            # Only the class: the message of a JSON error may quote the file.
            reason = f"{self.options_file} cannot be read as JSON: {type(error).__name__}"
            raise ConfigError("storageOptionsFile", reason) from None
        roots = parsed.get(_ROOTS, {}) if isinstance(parsed, dict) else None
        objects = [{**parsed, _ROOTS: ""}, *roots.values()] if isinstance(roots, dict) else [None]
        if not all(_is_string_map(one) for one in objects):
            reason = (
                f"{self.options_file} must hold a JSON object of strings; {_ROOTS} in it is an "
                "object with one for each root"
            )
            raise ConfigError("storageOptionsFile", reason)
        return dict(parsed)


def _is_string_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _without_options(roots: AllowedRoots, options_file: str | None) -> tuple[str, ...]:
    """Return allowed roots without their storage options, which may be secret."""
    if options_file is None and isinstance(roots, Mapping) and any(roots.values()):
        reason = (
            "has storage options, which reach this process only: executors take theirs from "
            f"{_ROOTS!r} of a JSON file that the session's {STORAGE_OPTIONS_FILE} names"
        )
        raise ConfigError(_ROOTS, reason)
    return tuple(roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class SerializedSnapshot:
    """A snapshot without its store."""

    location: TableLocation
    segment: LogSegment
    protocol: TableProtocol
    metadata: TableMetadata
    checksum: Checksum | None
    hint: CheckpointHint | None

    @classmethod
    def of(cls, snapshot: SnapshotState, options_file: str | None) -> SerializedSnapshot:
        """Return the serializable part of a snapshot.

        Raises:
            ConfigError: No other process can open its store.
        """
        return cls(
            location=TableLocation.of(snapshot.store, snapshot.config, options_file),
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

    def open(self, store: Store | None = None) -> SnapshotState:
        """Return the snapshot in this process, without reading anything.

        Args:
            store: The table's store, if it is open already.
        """
        store = self.location.open() if store is None else store
        config = self.location.local_config()
        return SnapshotState(
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
