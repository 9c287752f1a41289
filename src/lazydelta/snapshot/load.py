"""From an address to a `Snapshot`: find the segment, resolve protocol and metadata, check the gate.

Reads as little as that takes: a `.crc` at the version answers alone; else the tail's commits are
searched, newest first, and only then the checkpoint's two columns. A checkpoint that turns out to
be damaged is left out and the next older way taken, where the log still has one.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from lazydelta.errors import (
    DeltaError,
    LogCorruptError,
    LogGapError,
    SchemaError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lazydelta.log import (
    LOG_DIRECTORY,
    Checkpoint,
    CheckpointFiles,
    CheckpointHint,
    Checksum,
    CommitReader,
    LogFile,
    LogFileKind,
    LogSegment,
    choose_segment,
    list_log,
    open_checkpoint,
    read_checksum,
    read_hint,
)
from lazydelta.metrics import SegmentListed
from lazydelta.protocol import (
    MalformedActionError,
    PathResolver,
    TableMetadata,
    TableProperties,
    TableProtocol,
    allows_column_mapping,
    check_protocol,
    supported_by_table,
    unreadable_features,
    why_unreadable,
)
from lazydelta.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructType,
    check_mapping,
    check_type_changes,
    parse_schema,
)
from lazydelta.snapshot.state import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = ["find_segment", "load_snapshot", "skip_damaged_checkpoint"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

_GAP_TRIES = 3
_KINDS = ("protocol", "metaData")
_VARIANT = PrimitiveType("variant")
_WIDENING = {"typeWidening", "typeWidening-preview"}


def load_snapshot(store: Store, config: Config, *, version: int | None = None) -> Snapshot:
    """Return the state of the table at a version, the newest by default."""
    started = time.perf_counter()
    segment, hint = find_segment(store, config, version=version)
    resolver = PathResolver(store.root, config.allowed_roots)
    commits = CommitReader(store, config)
    excluded: set[str] = set()
    while True:
        resolution = _Resolution(store, config, segment, hint, commits, resolver)
        try:
            protocol, metadata = resolution.run()
            break
        except LogCorruptError as error:
            segment = _way_round(store, config, segment, error, excluded)
    if config.observer is not None:
        config.observer(
            SegmentListed(
                table=store.root,
                version=segment.version,
                checkpoint_version=None if segment.checkpoint is None else segment.floor,
                commits=len(segment.tail),
                seconds=time.perf_counter() - started,
            )
        )
    return Snapshot(
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
    )


def _schema(store: Store, protocol: TableProtocol, metadata: TableMetadata) -> StructType:
    schema = parse_schema(metadata.schema_string, where=store.root)
    kinds = {item.name: item.type for item in schema}
    for name in metadata.partition_columns:
        kind = kinds.get(name)
        if kind is None:
            raise SchemaError(f"partition column {name!r} is not one of its columns", store.root)
        if isinstance(kind, ArrayType | MapType | StructType) or kind == _VARIANT:
            reason = f"partition column {name!r} is {kind}, which the log has no text for"
            raise SchemaError(reason, store.root)
    try:
        if allows_column_mapping(protocol):
            check_mapping(schema, TableProperties.parse(metadata.configuration).column_mapping_mode)
        if supported_by_table(protocol) & _WIDENING:
            check_type_changes(schema)
    except SchemaError as error:
        raise SchemaError(error.reason, store.root) from None
    return schema


def find_segment(
    store: Store,
    config: Config,
    *,
    version: int | None = None,
    excluded: frozenset[str] = frozenset(),
) -> tuple[LogSegment, CheckpointHint | None]:
    """List the log and choose the segment that rebuilds a version."""

    def choose(from_version: int, to_version: int | None = version) -> LogSegment:
        files = list_log(store, from_version=from_version, to_version=to_version)
        return choose_segment(
            store.root,
            files,
            version=version,
            use_compaction=config.use_log_compaction,
            excluded=excluded,
        )

    hint = read_hint(store)
    if hint is not None and not excluded and (version is None or hint.version <= version):
        try:
            segment = choose(hint.version)
            if segment.checkpoint is not None:
                return segment, hint
        except (LogGapError, TableNotFoundError, VersionNotFoundError):
            pass  # the hint is stale or dangling: the whole listing decides
    try:
        return _patiently(lambda: choose(0), config), hint
    except (LogGapError, TableNotFoundError, VersionNotFoundError):
        if version is None:
            raise
        # What comes after the version tells why it is not there: cleaned up, or not committed yet.
        return choose(0, to_version=None), hint


def _patiently(choose: Callable[[], LogSegment], config: Config) -> LogSegment:
    """Choose, listing again when a commit seems missing: it may not be visible yet."""
    for attempt in range(_GAP_TRIES):
        try:
            return choose()
        except LogGapError:
            if attempt == _GAP_TRIES - 1:
                raise
            time.sleep(min(config.retry_base_seconds * 2**attempt, config.retry_cap_seconds))
    raise AssertionError  # pragma: no cover


def skip_damaged_checkpoint(snapshot: Snapshot, read: Callable[[Snapshot], T]) -> T:
    """Return what `read` makes of a version, without checkpoints and compactions that are damaged.

    It is called anew for each, so it must not hand out anything before it returns.

    Raises:
        LogCorruptError: The damage is elsewhere, or the log has no other way to the version.
    """
    excluded: set[str] = set()
    while True:
        try:
            return read(snapshot)
        except LogCorruptError as error:
            segment = _way_round(snapshot.store, snapshot.config, snapshot.segment, error, excluded)
            snapshot = replace(snapshot, segment=segment, footers={})


def _way_round(
    store: Store, config: Config, segment: LogSegment, error: LogCorruptError, excluded: set[str]
) -> LogSegment:
    """Return another segment for the same version, which does without what is damaged."""
    if (uncompacted := segment.without(error.file)) is not None:
        logger.warning("reading round a damaged compaction: %s", error)
        return uncompacted
    checkpoint = segment.checkpoint
    # Parquet is whole or cannot be read, so one that lacks an action was written like that, and
    # every engine refuses it; lines of JSON may just have been cut short.
    is_wrong = isinstance(error, IncompleteLogError) and error.file.endswith(".parquet")
    if checkpoint is None or is_wrong or not checkpoint.may_include(error.file):
        raise error
    excluded.add(checkpoint.name)
    try:
        way, _ = find_segment(store, config, version=segment.version, excluded=frozenset(excluded))
    except DeltaError:
        raise error from None
    logger.warning("reading round a damaged checkpoint: %s", error)
    return way


class IncompleteLogError(LogCorruptError):
    """The log can be read, but an action that every table has is nowhere in it."""


@dataclass
class _Resolution:
    """The search for protocol and metadata of one segment, cheapest sources first."""

    store: Store
    config: Config
    segment: LogSegment
    hint: CheckpointHint | None
    commits: CommitReader
    resolver: PathResolver
    checksum: Checksum | None = None
    found: dict[str, TableProtocol | TableMetadata] = field(default_factory=dict)
    footers: dict[str, Any] = field(default_factory=dict)

    def run(self) -> tuple[TableProtocol, TableMetadata]:
        """Return both, or raise; the protocol is checked before anything else is believed."""
        file = self.segment.checksum
        if file is not None and file.version >= self.segment.floor:
            self.checksum = read_checksum(self.store, file)
        self._search_tail()
        if self.checksum is not None:
            self.found.setdefault("protocol", self.checksum.protocol)
            self.found.setdefault("metaData", self.checksum.metadata)
        if self.segment.checkpoint is not None and len(self.found) < len(_KINDS):
            self._search_checkpoint()
        protocol, metadata = self.found.get("protocol"), self.found.get("metaData")
        if not isinstance(protocol, TableProtocol):
            raise self._incomplete("no protocol action")
        self._check_gate(protocol)
        if not isinstance(metadata, TableMetadata):
            raise self._incomplete("no metaData action")
        if (kind := metadata.format_provider) != "parquet":
            raise UnsupportedFeatureError(self.store.root, (f"files of format {kind}",), "read")
        return protocol, metadata

    def _search_tail(self) -> None:
        known_at = self.segment.floor if self.checksum is None else self.checksum.version
        newer = [f for f in reversed(self.segment.tail) if f.last_version > known_at]
        for file, actions in self.commits.find_each(newer, _KINDS):
            unreconciled = any(len(found) > 1 for found in actions.values())
            if unreconciled and file.kind is LogFileKind.COMPACTED:
                for commit in reversed(self.segment.commits_of(file)):
                    self._take_all(self.commits.find(commit, _KINDS), commit)
            else:
                self._take_all(actions, file)
            if len(self.found) == len(_KINDS):
                return

    def _take_all(self, actions: dict[str, list[dict[str, object]]], file: LogFile) -> None:
        for kind in _KINDS:
            self._take(kind, actions[kind], file.path, file.version)

    def _search_checkpoint(self) -> None:
        files = self.segment.checkpoint
        assert files is not None  # noqa: S101 - run() checked
        kinds = [kind for kind in _KINDS if kind not in self.found]
        hint = self.hint
        if hint is not None and hint.v2_name == files.name and hint.v2_actions is not None:
            for kind in kinds:
                stated = [a[kind] for a in hint.v2_actions if isinstance(a.get(kind), dict)]
                with suppress(LogCorruptError):  # it is a hint: the checkpoint itself decides
                    self._take(kind, stated, files.name, files.version)
            kinds = [kind for kind in kinds if kind not in self.found]
        if kinds:
            actions = self._open(files).actions(kinds, first_only=True)
            for kind in kinds:
                self._take(kind, actions[kind], files.files[0].path, files.version)

    def _open(self, files: CheckpointFiles) -> Checkpoint:
        return open_checkpoint(
            self.store,
            files,
            commits=self.commits,
            resolver=self.resolver,
            config=self.config,
            footers=self.footers,
        )

    def _take(self, kind: str, actions: list[dict[str, object]], path: str, version: int) -> None:
        if kind in self.found or not actions:
            return
        if len(actions) > 1:
            raise LogCorruptError(self.store.root, path, f"more than one {kind}", version)
        parse = TableProtocol.from_json if kind == "protocol" else TableMetadata.from_json
        try:
            self.found[kind] = parse(actions[0])
        except MalformedActionError as error:
            raise IncompleteLogError(self.store.root, path, str(error), version) from None

    def _check_gate(self, protocol: TableProtocol) -> None:
        """Refuse what this engine cannot read, before any of it is interpreted."""
        features = unreadable_features(protocol)
        if features:
            raise UnsupportedFeatureError(
                self.store.root, features, "read", why_unreadable(features)
            )
        try:
            check_protocol(protocol)
        except MalformedActionError as error:
            raise IncompleteLogError(
                self.store.root, LOG_DIRECTORY, str(error), self.segment.version
            ) from None

    def _incomplete(self, reason: str) -> IncompleteLogError:
        place = LOG_DIRECTORY
        if self.segment.checkpoint is not None:
            place = self.segment.checkpoint.files[0].path
        return IncompleteLogError(
            self.store.root, place, f"{reason} up to here", self.segment.version
        )
