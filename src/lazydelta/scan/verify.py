"""Is the table what it says it is: may this engine read it, and does its `.crc` tell the truth?

Both questions are put to the log itself: protocol and metadata are searched in commits and
checkpoint, never taken from the `.crc` under test, and the files are counted by one streaming scan.
A missing or damaged `.crc` is reported, for it never keeps anybody from reading.
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
    """One field of a `.crc` that is not what the log gives."""

    field: str
    recorded: Any
    computed: Any

    def __str__(self) -> str:
        recorded, computed = _text(self.recorded), _text(self.computed)
        return f"{self.field}: recorded {recorded}, the log gives {computed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumReport:
    """What became of the newest `.crc` at or below a version when it was held against the log."""

    status: str  # "matches" | "mismatch" | "missing" | "unusable"
    file: str | None = None
    version: int | None = None
    reason: str = ""
    mismatches: tuple[Mismatch, ...] = ()
    absent: tuple[str, ...] = ()
    """Required fields that the file lacks. Older writers left out `protocol` and `metadata`; a file
    without one of the counts is unusable."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: a missing or unusable checksum is nobody's loss."""
        return not self.mismatches

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """The verdict on one version of a table; no checksum is looked at if it cannot be read."""

    compatibility: Compatibility
    checksum: ChecksumReport | None

    @property
    def ok(self) -> bool:
        """Whether the table can be read and its checksum, if there is one, holds."""
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


class _Stated(NamedTuple):
    """The two actions as the log writes them, and in which files."""

    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    files: Mapping[str, str]


def check_table(store: Store, config: Config, *, version: int | None = None) -> TableCheck:
    """Judge a version of a table, the newest by default, also one that cannot be read.

    Raises:
        LogCorruptError: The log has no usable protocol or metadata to judge by.
    """
    segment, _ = find_segment(store, config, version=version)
    protocol, metadata = _parsed(store, segment, _stated(store, config, segment))
    verdict = compatibility(store.root, segment.version, protocol, metadata)
    if verdict.decision != "not-readable":
        try:
            check_protocol(protocol)
        except MalformedActionError as error:
            verdict = replace(verdict, decision="not-readable", reason=str(error))
    if verdict.decision == "not-readable":
        return TableCheck(compatibility=verdict, checksum=None)
    return TableCheck(compatibility=verdict, checksum=_verified(store, config, segment.checksum))


def verify_checksum(snapshot: SnapshotState) -> ChecksumReport:
    """Hold the newest `.crc` at or below a snapshot against the log; one streaming scan."""
    return _verified(snapshot.store, snapshot.config, snapshot.segment.checksum)


def _verified(store: Store, config: Config, file: LogFile | None) -> ChecksumReport:
    if file is None:
        return ChecksumReport(status="missing", reason="the log has no .crc file")
    named = ChecksumReport(status="unusable", file=file.path, version=file.version)
    try:
        recorded = parse_object(bytes(store.read(file.path)))
    except (BadLineError, ObjectNotFoundError) as error:
        return replace(named, reason=getattr(error, "reason", str(error)))
    try:
        segment, _ = find_segment(store, config, version=file.version)
    except DeltaError as error:
        return replace(named, reason=f"its version cannot be rebuilt: {error}")
    stated = _stated(store, config, segment)
    totals = _totals(_snapshot(store, config, segment, stated))
    found = tuple(_mismatches(recorded, stated, totals))
    absent = tuple(name for name in _REQUIRED if recorded.get(name) is None)
    if found:
        return replace(named, status="mismatch", mismatches=found, absent=absent)
    if lacking := [name for name in absent if name in _COUNTS]:
        return replace(named, reason=f"it has no {', '.join(lacking)}", absent=absent)
    return replace(named, status="matches", absent=absent)


def _stated(store: Store, config: Config, segment: LogSegment) -> _Stated:
    """Search the newest protocol and metadata in the log, whatever its `.crc` files say."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    commits = CommitReader(store, config)
    for file, actions in commits.find_each(segment.commits[::-1], _KINDS):
        _keep_first(found, file.path, actions)
        if len(found) == len(_KINDS):
            break
    missing = [kind for kind in _KINDS if kind not in found]
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
        _keep_first(found, path, checkpoint.actions(missing, first_only=True))
    for kind in _KINDS:
        if kind not in found:
            reason = f"no {kind} action up to here"
            raise LogCorruptError(store.root, path, reason, segment.version)
    places = {kind: place for kind, (place, _) in found.items()}
    return _Stated(found["protocol"][1], found["metaData"][1], places)


def _keep_first(
    found: dict[str, tuple[str, dict[str, Any]]],
    path: str,
    actions: Mapping[str, list[dict[str, Any]]],
) -> None:
    for kind, stated in actions.items():
        if stated:
            found.setdefault(kind, (path, stated[0]))


def _parsed(
    store: Store, segment: LogSegment, stated: _Stated
) -> tuple[TableProtocol, TableMetadata]:
    kind = "protocol"
    try:
        protocol = TableProtocol.from_json(stated.protocol)
        kind = "metaData"
        return protocol, TableMetadata.from_json(stated.metadata)
    except MalformedActionError as error:
        raise LogCorruptError(store.root, stated.files[kind], str(error), segment.version) from None


def _snapshot(store: Store, config: Config, segment: LogSegment, stated: _Stated) -> SnapshotState:
    """Return the snapshot of a segment that owes nothing to a `.crc`."""
    protocol, metadata = _parsed(store, segment, stated)
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
    """Count the files of a snapshot under the names that a `.crc` has for the counts."""
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
    recorded: Mapping[str, Any], stated: _Stated, totals: Mapping[str, int]
) -> Iterator[Mismatch]:
    counts = {"numMetadata": 1, "numProtocol": 1, **totals}
    written = {name: count for name, count in counts.items() if recorded.get(name) is not None}
    yield from _differences("", recorded, written)
    for name, shaped, action in (
        ("protocol", _shaped_protocol, stated.protocol),
        ("metadata", _shaped_metadata, stated.metadata),
    ):
        theirs = recorded.get(name)
        if isinstance(theirs, dict):
            yield from _differences(f"{name}.", shaped(theirs), shaped(action))
        elif theirs is not None:
            yield Mismatch(field=name, recorded=theirs, computed=dict(action))


def _differences(
    prefix: str, recorded: Mapping[str, Any], computed: Mapping[str, Any]
) -> Iterator[Mismatch]:
    for name, mine in computed.items():
        theirs = recorded.get(name)
        if theirs != mine or type(theirs) is not type(mine):  # to Python True is 1
            yield Mismatch(field=prefix + name, recorded=theirs, computed=mine)


def _shaped_protocol(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return what counts in a protocol: features are a set, and none listed is an empty set."""
    shaped = {name: action.get(name) for name in ("minReaderVersion", "minWriterVersion")}
    for name in _FEATURE_LISTS:
        listed = action.get(name) or []
        shaped[name] = sorted(listed, key=str) if isinstance(listed, list) else listed
    return shaped


def _shaped_metadata(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return what counts in a metadata: a schema is JSON, so its spacing does not."""
    shaped = {name: action.get(name) for name in _METADATA_FIELDS}
    shaped["configuration"] = shaped["configuration"] or {}
    shaped["partitionColumns"] = shaped["partitionColumns"] or []
    stated_format = action.get("format")
    shaped["format.provider"] = (
        stated_format.get("provider") if isinstance(stated_format, dict) else stated_format
    )
    schema = action.get("schemaString")
    try:
        shaped["schemaString"] = orjson.loads(schema) if isinstance(schema, str) else schema
    except orjson.JSONDecodeError:
        shaped["schemaString"] = schema
    return shaped


def _text(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()
