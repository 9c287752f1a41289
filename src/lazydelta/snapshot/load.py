"""Load a `SnapshotState`: find the log segment, then protocol and metadata, and check support.

It reads as little as possible: a `.crc` of the version suffices; otherwise the commits of the tail
are searched, newest first, and then two columns of the checkpoint. If a checkpoint is corrupt, an
older one is used, if the log still has the commits.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lazydelta import metrics
from lazydelta.errors import LogCorruptError, SchemaError, UnsupportedFeatureError
from lazydelta.log import (
    LOG_DIRECTORY,
    CheckpointFiles,
    Checksum,
    CommitReader,
    LogFile,
    LogFileKind,
    LogSegment,
    checkpoints,
    read_checksum,
)
from lazydelta.parquet import footer
from lazydelta.protocol import MalformedActionError, TableMetadata, TableProperties, TableProtocol
from lazydelta.protocol.features import (
    allows_column_mapping,
    check_protocol,
    supported_features,
    unreadable_features,
    unsupported_error,
)
from lazydelta.protocol.paths import PathResolver
from lazydelta.schema import ArrayType, MapType, PrimitiveType, StructType, parse_schema
from lazydelta.schema.evolution import check_type_changes
from lazydelta.schema.mapping import check_mapping
from lazydelta.snapshot import tuning
from lazydelta.snapshot.segment_search import (
    IncompleteLogError,
    find_segment,
    newer_segment,
    undamaged_segment,
)
from lazydelta.snapshot.snapshot_state import SnapshotState
from lazydelta.store import is_local, layers

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.log.checkpoints import Checkpoint, CheckpointHint
    from lazydelta.store import Store

__all__ = ["load_snapshot"]

_KINDS = ("protocol", "metaData")
_VARIANT = PrimitiveType("variant")
_WIDENING = {"typeWidening", "typeWidening-preview"}


def load_snapshot(
    store: Store,
    config: Config,
    *,
    version: int | None = None,
    previous: SnapshotState | None = None,
    segment: LogSegment | None = None,
) -> SnapshotState:
    """Return the snapshot of a version, by default the latest.

    Args:
        store: The table's store.
        config: Settings of the engine.
        version: The version; None is the latest.
        previous: An older snapshot of the table: with it, only what is newer is listed and read.
        segment: The log segment to read; by default it is found.
    """
    started = time.time()
    if segment is not None:
        return _load(store, config, segment, None, started=started)
    if previous is not None and version is None:
        newer = newer_segment(store, config, previous.segment)
        if newer is not None and newer.version == previous.version:
            return replace(previous, segment=newer, listed_ms=int(1000 * started))
        if newer is not None:
            return _load(store, config, newer, previous.hint, previous=previous, started=started)
    segment, hint = find_segment(store, config, version=version)
    return _load(store, config, segment, hint, started=started)


def _load(
    store: Store,
    config: Config,
    segment: LogSegment,
    hint: CheckpointHint | None,
    *,
    previous: SnapshotState | None = None,
    started: float,
) -> SnapshotState:
    """Return the snapshot of a segment, or of another one if a file of it is corrupt."""
    _prefetch(store, segment)
    resolver = PathResolver(store.root, config.allowed_roots)
    commits = CommitReader(store, config)
    while True:
        resolution = _Resolution(store, config, segment, hint, commits, resolver, previous)
        try:
            protocol, metadata = resolution.run()
            break
        except LogCorruptError as error:
            segment = undamaged_segment(store, config, segment, error)
    _report(store, config, segment, started)
    return SnapshotState(
        store=store,
        config=config,
        segment=segment,
        protocol=protocol,
        metadata=metadata,
        schema=_schema(store, protocol, metadata),
        properties=TableProperties.parse(metadata.configuration),
        resolver=resolver,
        commits=commits,
        checksum=resolution.checksum,
        hint=hint,
        footers=resolution.footers,
        listed_ms=int(1000 * started),
    )


def _report(store: Store, config: Config, segment: LogSegment, started: float) -> None:
    if config.observer is not None:
        event = metrics.SegmentListed(
            table=store.root,
            version=segment.version,
            checkpoint_version=None if segment.checkpoint is None else segment.base_version,
            commits=len(segment.tail),
            seconds=time.time() - started,
        )
        metrics.notify(config.observer, event)


def _prefetch(store: Store, segment: LogSegment) -> None:
    """Request together what loading, and the first batch of a scan, read of a remote log."""
    if is_local(store):
        return
    if segment.checksum is not None and segment.checksum.size <= tuning.PREFETCH_FILE_BYTES:
        layers.prefetch(store, segment.checksum.path)
    for file in segment.tail[: -tuning.PREFETCH_COMMITS - 1 : -1]:
        if file.size <= tuning.PREFETCH_FILE_BYTES:
            layers.prefetch(store, file.path)
    for file in () if segment.checkpoint is None else segment.checkpoint.files:
        if file.name.endswith(".parquet"):
            layers.prefetch(store, file.path, *footer.footer_range(file.size))
        elif file.size <= tuning.PREFETCH_FILE_BYTES:
            layers.prefetch(store, file.path)


def _schema(store: Store, protocol: TableProtocol, metadata: TableMetadata) -> StructType:
    schema = parse_schema(metadata.schema_string, where=store.root)
    types = {column.name: column.type for column in schema}
    for name in metadata.partition_columns:
        kind = types.get(name)
        if kind is None:
            raise SchemaError(f"partition column {name!r} is not in the schema", store.root)
        if isinstance(kind, ArrayType | MapType | StructType) or kind == _VARIANT:
            reason = f"partition column {name!r} is {kind}, which cannot be a partition value"
            raise SchemaError(reason, store.root)
    mode = TableProperties.parse(metadata.configuration).column_mapping_mode
    try:
        check_mapping(schema, mode, supported=allows_column_mapping(protocol))
        if supported_features(protocol) & _WIDENING:
            check_type_changes(schema)
    except SchemaError as error:
        raise SchemaError(error.reason, store.root) from None
    return schema


@dataclass
class _Resolution:
    """Finds the protocol and metadata of one segment, cheapest sources first."""

    store: Store
    config: Config
    segment: LogSegment
    hint: CheckpointHint | None
    commits: CommitReader
    resolver: PathResolver
    previous: SnapshotState | None = None
    checksum: Checksum | None = None
    definition: dict[str, TableProtocol | TableMetadata] = field(default_factory=dict)
    footers: dict[str, Any] = field(default_factory=dict)

    def run(self) -> tuple[TableProtocol, TableMetadata]:
        """Return both; the protocol is checked before anything else is interpreted."""
        file = self.segment.checksum
        if file is not None and file.version >= self.segment.base_version:
            self.checksum = read_checksum(self.store, file)
        base = self._base()
        self._search_tail(self.segment.base_version if base is None else base.version)
        if base is not None:
            self.definition.setdefault("protocol", base.protocol)
            self.definition.setdefault("metaData", base.metadata)
        if self.segment.checkpoint is not None and len(self.definition) < len(_KINDS):
            self._search_checkpoint()
        protocol, metadata = self.definition.get("protocol"), self.definition.get("metaData")
        if not isinstance(protocol, TableProtocol):
            raise self._incomplete("no protocol action")
        self._check_protocol(protocol)
        if not isinstance(metadata, TableMetadata):
            raise self._incomplete("no metaData action")
        if (kind := metadata.format_provider) != "parquet":
            raise UnsupportedFeatureError(self.store.root, (f"files of format {kind}",), "read")
        return protocol, metadata

    def _base(self) -> Checksum | SnapshotState | None:
        """Return the newest known version of the tail: of the checksum or the previous snapshot."""
        known = [
            base
            for base in (self.checksum, self.previous)
            if base is not None and base.version >= self.segment.base_version
        ]
        return max(known, key=lambda base: base.version, default=None)

    def _search_tail(self, base: int) -> None:
        newer = [f for f in reversed(self.segment.tail) if f.last_version > base]
        for file, actions in self.commits.find_each(newer, _KINDS):
            is_unreconciled = any(len(of_kind) > 1 for of_kind in actions.values())
            if is_unreconciled and file.kind is LogFileKind.COMPACTED:
                for commit in reversed(self.segment.commits_of(file)):
                    self._record_all(self.commits.find(commit, _KINDS), commit)
            else:
                self._record_all(actions, file)
            if len(self.definition) == len(_KINDS):
                return

    def _record_all(self, actions: dict[str, list[dict[str, object]]], file: LogFile) -> None:
        for kind in _KINDS:
            self._record(kind, actions[kind], file.path, file.version)

    def _search_checkpoint(self) -> None:
        files = self.segment.checkpoint
        assert files is not None  # noqa: S101 - run() checked
        kinds = [kind for kind in _KINDS if kind not in self.definition]
        hint = self.hint
        if hint is not None and hint.v2_name == files.name and hint.v2_actions is not None:
            for kind in kinds:
                hinted = [a[kind] for a in hint.v2_actions if isinstance(a.get(kind), dict)]
                with suppress(LogCorruptError):  # only a hint: the checkpoint decides
                    self._record(kind, hinted, files.name, files.version)
            kinds = [kind for kind in kinds if kind not in self.definition]
        if kinds:
            actions = self._open(files).actions(kinds, first_only=True)
            for kind in kinds:
                self._record(kind, actions[kind], files.files[0].path, files.version)

    def _open(self, files: CheckpointFiles) -> Checkpoint:
        return checkpoints.open_checkpoint(
            self.store,
            files,
            commits=self.commits,
            resolver=self.resolver,
            config=self.config,
            footers=self.footers,
        )

    def _record(self, kind: str, actions: list[dict[str, object]], path: str, version: int) -> None:
        if kind in self.definition or not actions:
            return
        if len(actions) > 1:
            raise LogCorruptError(self.store.root, path, f"more than one {kind}", version)
        parse = TableProtocol.from_json if kind == "protocol" else TableMetadata.from_json
        try:
            self.definition[kind] = parse(actions[0])
        except MalformedActionError as error:
            raise IncompleteLogError(self.store.root, path, str(error), version) from None

    def _check_protocol(self, protocol: TableProtocol) -> None:
        """Refuse an unsupported protocol, before anything else is interpreted."""
        features = unreadable_features(protocol)
        if features:
            raise unsupported_error(self.store.root, features, "read")
        try:
            check_protocol(protocol)
        except MalformedActionError as error:
            raise IncompleteLogError(
                self.store.root, LOG_DIRECTORY, str(error), self.segment.version
            ) from None

    def _incomplete(self, reason: str) -> IncompleteLogError:
        path = LOG_DIRECTORY
        if self.segment.checkpoint is not None:
            path = self.segment.checkpoint.files[0].path
        return IncompleteLogError(
            self.store.root, path, f"{reason} up to this version", self.segment.version
        )
