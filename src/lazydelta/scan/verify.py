"""Table verification: can this engine read the table, and does its `.crc` match the log?

Protocol and metadata are read from commits and checkpoint, never from the `.crc` under test. One
streaming scan counts the files. A missing or damaged `.crc` is reported and is no error, because
readers do not depend on it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pyarrow.compute as pc

from lazydelta.errors import DeltaError, LogCorruptError, ObjectNotFoundError
from lazydelta.formats import BadLineError, parse_object
from lazydelta.log import LOG_DIRECTORY, CommitReader, LogFile, LogSegment
from lazydelta.log.checkpoints import open_checkpoint
from lazydelta.protocol import MalformedActionError, TableMetadata, TableProperties, TableProtocol
from lazydelta.protocol.features import Compatibility, check_protocol, compatibility
from lazydelta.protocol.paths import PathResolver
from lazydelta.scan.scan import Scan
from lazydelta.schema import parse_schema
from lazydelta.snapshot import SnapshotState, find_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = ["ChecksumReport", "Mismatch", "TableCheck", "check_table", "verify_checksum"]

_KINDS = ("protocol", "metaData")
_COUNTS = ("tableSizeBytes", "numFiles", "numMetadata", "numProtocol")
_REQUIRED = (*_COUNTS, "protocol", "metadata")
_FEATURE_LISTS = ("readerFeatures", "writerFeatures")
_METADATA_FIELDS = ("id", "name", "description", "partitionColumns", "configuration", "createdTime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A field of a `.crc` that differs from the log."""

    field: str
    recorded: Any
    computed: Any

    def __str__(self) -> str:
        recorded, computed = _json(self.recorded), _json(self.computed)
        return f"{self.field}: recorded {recorded}, the log gives {computed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumReport:
    """Comparison of the newest `.crc` at or below a version with the log."""

    status: str  # "matches" | "mismatch" | "missing" | "unusable"
    file: str | None = None
    version: int | None = None
    reason: str = ""
    mismatches: tuple[Mismatch, ...] = ()
    absent: tuple[str, ...] = ()
    """Required fields that the file lacks. Older writers omit `protocol` and `metadata`; a file
    without one of the counts is unusable."""

    @property
    def ok(self) -> bool:
        """Whether no field differs; a missing or unusable checksum is no failure."""
        return not self.mismatches

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """Result of the check of one version; a table that cannot be read has no checksum report."""

    compatibility: Compatibility
    checksum: ChecksumReport | None

    @property
    def ok(self) -> bool:
        """Whether the table can be read and its checksum, if there is one, matches."""
        readable = self.compatibility.decision != "not-readable"
        return readable and (self.checksum is None or self.checksum.ok)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        checksum = None if self.checksum is None else self.checksum.to_dict()
        return {
            "ok": self.ok,
            "compatibility": self.compatibility.to_dict(),
            "checksum": checksum,
        }


class _LoggedActions(NamedTuple):
    """The newest protocol and metadata actions, and the log files that hold them."""

    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    files: Mapping[str, str]


def check_table(store: Store, config: Config, *, version: int | None = None) -> TableCheck:
    """Check a version of a table, by default the newest, even one that cannot be read.

    Raises:
        LogCorruptError: The log has no usable protocol or metadata.
    """
    segment, _ = find_segment(store, config, version=version)
    protocol, metadata = _parse(store, segment, _logged_actions(store, config, segment))
    verdict = compatibility(store.root, segment.version, protocol, metadata)
    if verdict.decision != "not-readable":
        try:
            check_protocol(protocol)
        except MalformedActionError as error:
            verdict = replace(verdict, decision="not-readable", reason=str(error))
    if verdict.decision == "not-readable":
        return TableCheck(compatibility=verdict, checksum=None)
    return TableCheck(compatibility=verdict, checksum=_verify(store, config, segment.checksum))


def verify_checksum(snapshot: SnapshotState) -> ChecksumReport:
    """Compare the newest `.crc` at or below a snapshot with the log, by one streaming scan."""
    return _verify(snapshot.store, snapshot.config, snapshot.segment.checksum)


def _verify(store: Store, config: Config, file: LogFile | None) -> ChecksumReport:
    if file is None:
        return ChecksumReport(status="missing", reason="the log has no .crc file")
    report = ChecksumReport(status="unusable", file=file.path, version=file.version)
    try:
        recorded = parse_object(bytes(store.read(file.path)))
    except (BadLineError, ObjectNotFoundError) as error:
        return replace(report, reason=getattr(error, "reason", str(error)))
    try:
        segment, _ = find_segment(store, config, version=file.version)
    except DeltaError as error:
        return replace(report, reason=f"its version cannot be rebuilt: {error}")
    actions = _logged_actions(store, config, segment)
    totals = _totals(_snapshot(store, config, segment, actions))
    mismatches = tuple(_mismatches(recorded, actions, totals))
    absent = tuple(name for name in _REQUIRED if recorded.get(name) is None)
    if mismatches:
        return replace(report, status="mismatch", mismatches=mismatches, absent=absent)
    if counts := [name for name in absent if name in _COUNTS]:
        return replace(report, reason=f"it has no {', '.join(counts)}", absent=absent)
    return replace(report, status="matches", absent=absent)


def _logged_actions(store: Store, config: Config, segment: LogSegment) -> _LoggedActions:
    """Find the newest protocol and metadata in the log, without its `.crc` files."""
    newest: dict[str, tuple[str, dict[str, Any]]] = {}
    commits = CommitReader(store, config)
    for file, actions in commits.find_each(segment.commits[::-1], _KINDS):
        _keep_first(newest, file.path, actions)
        if len(newest) == len(_KINDS):
            break
    missing = [kind for kind in _KINDS if kind not in newest]
    path = LOG_DIRECTORY
    if missing and segment.checkpoint is not None:
        path = segment.checkpoint.files[0].path
        resolver = PathResolver(store.root, config.allowed_roots)
        checkpoint = open_checkpoint(
            store,
            segment.checkpoint,
            commits=commits,
            resolver=resolver,
            config=config,
            footers={},
        )
        _keep_first(newest, path, checkpoint.actions(missing, first_only=True))
    for kind in _KINDS:
        if kind not in newest:
            reason = f"no {kind} action up to here"
            raise LogCorruptError(store.root, path, reason, segment.version)
    files = {kind: file for kind, (file, _) in newest.items()}
    return _LoggedActions(newest["protocol"][1], newest["metaData"][1], files)


def _keep_first(
    newest: dict[str, tuple[str, dict[str, Any]]],
    path: str,
    actions: Mapping[str, list[dict[str, Any]]],
) -> None:
    for kind, bodies in actions.items():
        if bodies:
            newest.setdefault(kind, (path, bodies[0]))


def _parse(
    store: Store, segment: LogSegment, actions: _LoggedActions
) -> tuple[TableProtocol, TableMetadata]:
    kind = "protocol"
    try:
        protocol = TableProtocol.from_json(actions.protocol)
        kind = "metaData"
        return protocol, TableMetadata.from_json(actions.metadata)
    except MalformedActionError as error:
        raise LogCorruptError(
            store.root, actions.files[kind], str(error), segment.version
        ) from None


def _snapshot(
    store: Store, config: Config, segment: LogSegment, actions: _LoggedActions
) -> SnapshotState:
    """Return the snapshot of a segment, without its `.crc`."""
    protocol, metadata = _parse(store, segment, actions)
    return SnapshotState(
        store=store,
        config=config,
        segment=replace(segment, checksum=None),
        protocol=protocol,
        metadata=metadata,
        schema=parse_schema(metadata.schema_string, where=store.root),
        properties=TableProperties.parse(metadata.configuration),
        resolver=PathResolver(store.root, config.allowed_roots),
        commits=CommitReader(store, config),
        checksum=None,
        hint=None,
    )


def _totals(snapshot: SnapshotState) -> dict[str, int]:
    """Return the file counts of a snapshot, by the field names of a `.crc`."""
    files = size = vectors = deleted = 0
    with Scan(snapshot).file_batches() as batches:
        for batch in batches:
            files += batch.num_rows
            size += pc.sum(batch.column("size")).as_py() or 0
            vector = batch.column("deletion_vector")
            vectors += len(vector) - vector.null_count
            deleted += pc.sum(pc.struct_field(vector, "cardinality")).as_py() or 0
    return {
        "numFiles": files,
        "tableSizeBytes": size,
        "numDeletionVectorsOpt": vectors,
        "numDeletedRecordsOpt": deleted,
    }


def _mismatches(
    recorded: Mapping[str, Any], actions: _LoggedActions, totals: Mapping[str, int]
) -> Iterator[Mismatch]:
    counts = {"numMetadata": 1, "numProtocol": 1, **totals}
    comparable = {name: count for name, count in counts.items() if recorded.get(name) is not None}
    yield from _differences("", recorded, comparable)
    for name, normalized, action in (
        ("protocol", _normalized_protocol, actions.protocol),
        ("metadata", _normalized_metadata, actions.metadata),
    ):
        value = recorded.get(name)
        if isinstance(value, dict):
            yield from _differences(f"{name}.", normalized(value), normalized(action))
        elif value is not None:
            yield Mismatch(field=name, recorded=value, computed=dict(action))


def _differences(
    prefix: str, recorded: Mapping[str, Any], computed: Mapping[str, Any]
) -> Iterator[Mismatch]:
    for name, expected in computed.items():
        value = recorded.get(name)
        if value != expected or type(value) is not type(expected):  # in Python True == 1
            yield Mismatch(field=prefix + name, recorded=value, computed=expected)


def _normalized_protocol(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparable protocol: features are a set, and a missing list is an empty set."""
    fields = {name: action.get(name) for name in ("minReaderVersion", "minWriterVersion")}
    for name in _FEATURE_LISTS:
        listed = action.get(name) or []
        fields[name] = sorted(listed, key=str) if isinstance(listed, list) else listed
    return fields


def _normalized_metadata(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return comparable metadata: the schema is parsed, because its whitespace is irrelevant."""
    fields = {name: action.get(name) for name in _METADATA_FIELDS}
    fields["configuration"] = fields["configuration"] or {}
    fields["partitionColumns"] = fields["partitionColumns"] or []
    provider = action.get("format")
    fields["format.provider"] = provider.get("provider") if isinstance(provider, dict) else provider
    schema = action.get("schemaString")
    try:
        fields["schemaString"] = orjson.loads(schema) if isinstance(schema, str) else schema
    except orjson.JSONDecodeError:
        fields["schemaString"] = schema
    return fields


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()
