"""The actions of the Delta protocol: dataclasses for the few, Arrow schemas for the many.

A table has one protocol and one metadata but millions of files, so file actions are never Python
objects in bulk: `ADD` and `REMOVE` are the Arrow types they travel in. Parsing here is strict on
types and indifferent to unknown fields, as the protocol asks. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ADD",
    "DELETION_VECTOR",
    "REMOVE",
    "REMOVE_ACTION",
    "ZONE_MAP_TAG",
    "CommitInfo",
    "DomainMetadata",
    "MalformedActionError",
    "SetTransaction",
    "Sidecar",
    "TableMetadata",
    "TableProtocol",
    "clustering_columns",
]

ZONE_MAP_TAG = "lazydelta.zones"
"""The tag of a sidecar that says what its adds range over."""

STRING_MAP = pa.map_(pa.string(), pa.string())

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
"""An `add` as a commit writes it; checkpoints may have more (`stats_parsed`) or less."""

REMOVE = pa.struct([("path", pa.string()), ("deletionVector", DELETION_VECTOR)])
"""As much of a `remove` as a reader needs: the identity of the file that is gone."""

REMOVE_ACTION = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
"""A `remove` as a commit writes it."""

CHANGE_FILE = pa.struct(
    [ADD.field(name) for name in ("path", "partitionValues", "size", "dataChange")]
)
"""A `cdc` as a commit writes it: a file with the rows that the commit changed."""

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""What a change has beside the table's own columns; change files have the first of them."""


class MalformedActionError(ValueError):
    """An action whose fields break the protocol; whoever knows the file wraps it."""


def _field(action: str, obj: Mapping[str, Any], name: str, kind: type, default: Any = ...) -> Any:
    value = obj.get(name)
    if value is None:
        if default is ...:
            raise MalformedActionError(f"{action} has no {name}")
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise MalformedActionError(f"{action}.{name} is not of type {kind.__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise MalformedActionError(f"{action}.{name} is out of range")
    return value


def _names(action: str, obj: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return a set of strings in one order, whatever the writer's: equal sets are equal then."""
    found = _strings(action, obj, name)
    return None if found is None else tuple(sorted(set(found)))


def _strings(action: str, obj: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    values = _field(action, obj, name, list, None)
    if values is None:
        return None
    if not all(isinstance(value, str) for value in values):
        raise MalformedActionError(f"{action}.{name} holds something that is not a string")
    return tuple(values)


def _whole(action: str, obj: Mapping[str, Any], name: str) -> int | None:
    """Return a number that some writers give a fraction of nothing: 1500000000000.0."""
    value = obj.get(name)
    if isinstance(value, float) and value.is_integer():
        obj = {name: int(value)}
    number: int | None = _field(action, obj, name, int, None)
    return number


def _settings(given: Mapping[str, Any]) -> dict[str, str]:
    """Return texts by name; numbers and truths are their texts, as Spark and delta-rs take them."""
    texts = {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in given.items()
        if isinstance(value, str | int | float)
    }
    if len(texts) < len(given):
        raise MalformedActionError("metaData.configuration holds something else than strings")
    return texts


def _options(value: Any) -> dict[str, str]:
    """Return the texts of a map that no reader needs, and that is no reason to refuse a table."""
    given = value if isinstance(value, dict) else {}
    return {key: text for key, text in given.items() if isinstance(text, str)}


def _without_nones(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProtocol:
    """The `protocol` action: what a reader and a writer must understand."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> TableProtocol:
        """Parse the object under the `protocol` key."""
        return cls(
            min_reader_version=_field("protocol", obj, "minReaderVersion", int),
            min_writer_version=_field("protocol", obj, "minWriterVersion", int),
            reader_features=_names("protocol", obj, "readerFeatures"),
            writer_features=_names("protocol", obj, "writerFeatures"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object under the `protocol` key."""
        return _without_nones(
            minReaderVersion=self.min_reader_version,
            minWriterVersion=self.min_writer_version,
            readerFeatures=self.reader_features,
            writerFeatures=self.writer_features,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """The `metaData` action: schema, partitioning and properties of one version."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    format_provider: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)
    """Nobody asks for them any more, but who writes metadata on must not lose them."""
    name: str | None = None
    description: str | None = None
    created_time: int | None = None

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> TableMetadata:
        """Parse the object under the `metaData` key."""
        file_format = _field("metaData", obj, "format", dict, {})
        return cls(
            id=_field("metaData", obj, "id", str, ""),
            schema_string=_field("metaData", obj, "schemaString", str),
            partition_columns=_strings("metaData", obj, "partitionColumns") or (),
            configuration=_settings(_field("metaData", obj, "configuration", dict, {})),
            format_provider=_field("metaData.format", file_format, "provider", str, "parquet"),
            format_options=_options(file_format.get("options")),
            name=_field("metaData", obj, "name", str, None),
            description=_field("metaData", obj, "description", str, None),
            created_time=_whole("metaData", obj, "createdTime"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object under the `metaData` key."""
        return _without_nones(
            id=self.id,
            name=self.name,
            description=self.description,
            format={"provider": self.format_provider, "options": dict(self.format_options)},
            schemaString=self.schema_string,
            partitionColumns=list(self.partition_columns),
            configuration=dict(self.configuration),
            createdTime=self.created_time,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction:
    """The `txn` action: how far one application got."""

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> SetTransaction:
        """Parse the object under the `txn` key."""
        return cls(
            app_id=_field("txn", obj, "appId", str),
            version=_field("txn", obj, "version", int),
            last_updated=_field("txn", obj, "lastUpdated", int, None),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object under the `txn` key."""
        return _without_nones(
            appId=self.app_id, version=self.version, lastUpdated=self.last_updated
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """The `domainMetadata` action: one named setting that a table feature keeps on the table."""

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> DomainMetadata:
        """Parse the object under the `domainMetadata` key."""
        return cls(
            domain=_field("domainMetadata", obj, "domain", str),
            configuration=_field("domainMetadata", obj, "configuration", str, ""),
            removed=_field("domainMetadata", obj, "removed", bool, False),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object under the `domainMetadata` key."""
        return {
            "domain": self.domain,
            "configuration": self.configuration,
            "removed": self.removed,
        }

    @property
    def is_system(self) -> bool:
        """Whether only the engine may write it: the protocol reserves the `delta.` prefix."""
        return self.domain.startswith("delta.")


def clustering_columns(domains: Mapping[str, DomainMetadata]) -> list[tuple[str, ...]]:
    """Return the physical paths of the columns that a table is clustered by, by its domains.

    What cannot be understood is no columns: they only say how files had better lie.
    """
    domain = domains.get("delta.clustering")
    try:
        stated = {} if domain is None else orjson.loads(domain.configuration)
        return [tuple(map(str, path)) for path in stated.get("clusteringColumns", ())]
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The `sidecar` action: a file of a V2 checkpoint that holds file actions."""

    path: str
    size_in_bytes: int | None = None
    zones: str | None = None
    """The tag `ZONE_MAP_TAG`: what its adds range over (docs/adr/0026-checkpoints.md)."""

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Sidecar:
        """Parse the object under the `sidecar` key; tags are free-form, so odd ones are no tags."""
        tags = obj.get("tags")
        zones = tags.get(ZONE_MAP_TAG) if isinstance(tags, dict) else None
        return cls(
            path=_field("sidecar", obj, "path", str),
            size_in_bytes=_field("sidecar", obj, "sizeInBytes", int, None),
            zones=zones if isinstance(zones, str) else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """The `commitInfo` action: free-form provenance of one commit."""

    version: int
    timestamp: int | None
    operation: str | None
    in_commit_timestamp: int | None
    raw: Mapping[str, Any]

    @classmethod
    def from_json(cls, obj: Mapping[str, Any], *, version: int) -> CommitInfo:
        """Parse the object under the `commitInfo` key; odd values of free-form fields are kept."""

        def typed(name: str, kind: type) -> Any:
            value = obj.get(name)
            return value if isinstance(value, kind) and not isinstance(value, bool) else None

        return cls(
            version=version,
            timestamp=typed("timestamp", int),
            operation=typed("operation", str),
            in_commit_timestamp=typed("inCommitTimestamp", int),
            raw=obj,
        )
