"""Actions of the Delta protocol as dataclasses; file actions are Arrow batches (`schemas`).

Parsing is strict on types and ignores unknown fields, as the protocol requires.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
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
"""The tag of a sidecar with its zone map."""


class MalformedActionError(ValueError):
    """An action with invalid fields; callers that know the file wrap it."""


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
    """Return a set of strings, sorted, so that equal sets compare equal."""
    strings = _strings(action, obj, name)
    return None if strings is None else tuple(sorted(set(strings)))


def _strings(action: str, obj: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    values = _field(action, obj, name, list, None)
    if values is None:
        return None
    if not all(isinstance(value, str) for value in values):
        raise MalformedActionError(f"{action}.{name} has an item that is not a string")
    return tuple(values)


def _integer(action: str, obj: Mapping[str, Any], name: str) -> int | None:
    """Return an integer, which some writers write as a float: 1500000000000.0."""
    value = obj.get(name)
    if isinstance(value, float) and value.is_integer():
        obj = {name: int(value)}
    number: int | None = _field(action, obj, name, int, None)
    return number


def _configuration(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return string values; numbers and booleans are converted, as in Spark and delta-rs."""
    strings = {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in raw.items()
        if isinstance(value, str | int | float)
    }
    if len(strings) < len(raw):
        raise MalformedActionError("metaData.configuration has a value that is not a string")
    return strings


def _format_options(raw: Any) -> dict[str, str]:
    """Return the string values of a map that no reader needs; other values are ignored."""
    options = raw if isinstance(raw, dict) else {}
    return {key: value for key, value in options.items() if isinstance(value, str)}


def _without_nones(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProtocol:
    """The `protocol` action: what a reader and a writer must support."""

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
    """Unused by readers; writers must preserve them."""
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
            configuration=_configuration(_field("metaData", obj, "configuration", dict, {})),
            format_provider=_field("metaData.format", file_format, "provider", str, "parquet"),
            format_options=_format_options(file_format.get("options")),
            name=_field("metaData", obj, "name", str, None),
            description=_field("metaData", obj, "description", str, None),
            created_time=_integer("metaData", obj, "createdTime"),
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
    """The `txn` action: the last transaction version of an application."""

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
    """The `domainMetadata` action: named metadata of a table feature or a user."""

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
    """Return the physical paths of the clustering columns, from the domain `delta.clustering`.

    Invalid metadata gives no columns: clustering only affects the layout of new files.
    """
    domain = domains.get("delta.clustering")
    try:
        metadata = {} if domain is None else orjson.loads(domain.configuration)
        return [tuple(map(str, path)) for path in metadata.get("clusteringColumns", ())]
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The `sidecar` action: a file of a V2 checkpoint with file actions."""

    path: str
    size_in_bytes: int | None = None
    zones: str | None = None
    """The zone map in the tag `ZONE_MAP_TAG` (docs/adr/0026-checkpoints.md)."""

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Sidecar:
        """Parse the object under the `sidecar` key; invalid tags are ignored."""
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
        """Parse the object under the `commitInfo` key; fields of another type are None."""

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
