"""Table features: which ones this engine reads, which are active, and the verdict on a table.

The rules of the protocol's versions and feature lists, without I/O. A reader must refuse what it
does not know by name; it must not refuse what only concerns writers. A writer must refuse both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError
from lazydelta.protocol.actions import MalformedActionError, TableMetadata, TableProtocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "READER_FEATURES",
    "WRITER_FEATURES",
    "Compatibility",
    "compatibility",
    "supported_by_table",
    "switched_on",
    "unreadable_features",
    "unwritable_features",
    "with_features",
]

READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNanos",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features whose rules lazydelta follows."""

WRITER_FEATURES = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features of tables that lazydelta commits to.

A feature only says what a table may use. Where a single column or property asks for more than this
engine does (a rule that it cannot evaluate, say), whoever plans the write refuses it by name.
"""

_NEWEST_READER_VERSION = 3
_NEWEST_WRITER_VERSION = 7

_CATALOG = frozenset({"catalogManaged", "catalogOwned", "catalogOwned-preview"})

# What a legacy writer version implies, by the version that brought it (PROTOCOL.md, appendix).
_LEGACY_WRITER_FEATURES = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}

_LEGACY_READER_FEATURES = {2: ("columnMapping",)}

# Features that readers must understand too, of those that this engine may add to a table.
_READER_WRITER = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

_DEPENDENCIES = {"clustering": ("domainMetadata",), "rowTracking": ("domainMetadata",)}

_SWITCHES = {
    "appendOnly": ("delta.appendOnly", "true"),
    "changeDataFeed": ("delta.enableChangeDataFeed", "true"),
    "deletionVectors": ("delta.enableDeletionVectors", "true"),
    "icebergCompatV1": ("delta.enableIcebergCompatV1", "true"),
    "icebergCompatV2": ("delta.enableIcebergCompatV2", "true"),
    "icebergCompatV3": ("delta.enableIcebergCompatV3", "true"),
    "inCommitTimestamp": ("delta.enableInCommitTimestamps", "true"),
    "rowTracking": ("delta.enableRowTracking", "true"),
    "typeWidening": ("delta.enableTypeWidening", "true"),
    "v2Checkpoint": ("delta.checkpointPolicy", "v2"),
    "variantShredding": ("delta.enableVariantShredding", "true"),
}
"""The property, and the value of it, that put a feature to use."""
_CONSTRAINT = "delta.constraints."


def check_protocol(protocol: TableProtocol) -> None:
    """Raise `MalformedActionError` where versions and feature lists contradict each other."""
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader < 1 or writer < 1:
        raise MalformedActionError(f"protocol versions start at 1, not {reader} and {writer}")
    if reader == _NEWEST_READER_VERSION and protocol.reader_features is None:
        raise MalformedActionError("protocol has minReaderVersion 3 but no readerFeatures")
    if reader == _NEWEST_READER_VERSION and writer < _NEWEST_WRITER_VERSION:
        raise MalformedActionError("protocol has minReaderVersion 3 but minWriterVersion below 7")
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    if readers and reader < _NEWEST_READER_VERSION:
        raise MalformedActionError(f"protocol has readerFeatures but minReaderVersion {reader}")
    if writers and writer < _NEWEST_WRITER_VERSION:
        raise MalformedActionError(f"protocol has writerFeatures but minWriterVersion {writer}")
    # Of a feature that nobody here knows another error tells more.
    if alone := sorted(readers & READER_FEATURES - writers):
        names = ", ".join(alone)
        raise MalformedActionError(f"protocol has {names} in readerFeatures, not in writerFeatures")


def unreadable_features(protocol: TableProtocol) -> tuple[str, ...]:
    """Return what keeps this engine from reading: unknown features, or a version by number."""
    if protocol.min_reader_version > _NEWEST_READER_VERSION:
        return (f"reader version {protocol.min_reader_version}",)
    return tuple(sorted(set(protocol.reader_features or ()) - READER_FEATURES))


def unwritable_features(protocol: TableProtocol) -> tuple[str, ...]:
    """Return what keeps this engine from writing: unknown features, or a version by number."""
    if protocol.min_writer_version > _NEWEST_WRITER_VERSION:
        return (f"writer version {protocol.min_writer_version}",)
    unreadable = unreadable_features(protocol)
    return tuple(sorted({*unreadable, *(supported_by_table(protocol) - WRITER_FEATURES)}))


def why_unreadable(features: tuple[str, ...]) -> str:
    """Return the reason behind a refusal, where there is more to say than the name."""
    if _CATALOG & set(features):
        return "a catalog-managed table must be opened through its catalog, not by path"
    return ""


def supported_by_table(protocol: TableProtocol) -> frozenset[str]:
    """Return every feature the protocol allows, legacy versions spelt out."""
    named = set(protocol.reader_features or ()) | set(protocol.writer_features or ())
    if protocol.min_writer_version < _NEWEST_WRITER_VERSION:
        for version, names in _LEGACY_WRITER_FEATURES.items():
            if version <= protocol.min_writer_version:
                named.update(names)
    return frozenset(named)


def with_features(protocol: TableProtocol, names: Iterable[str]) -> TableProtocol:
    """Return the protocol with features added: the same object where it allows them already.

    A protocol of numbers becomes one of lists, in which all that the numbers stood for is spelt
    out. Readers are asked for more only by features that concern them.

    >>> with_features(TableProtocol(min_reader_version=1, min_writer_version=2), ["rowTracking"])
    TableProtocol(min_reader_version=1, min_writer_version=7, reader_features=None,
        writer_features=('appendOnly', 'domainMetadata', 'invariants', 'rowTracking'))

    Raises:
        ConfigError: This engine does not write tables with such a feature.
    """
    wanted: set[str] = set()
    for name in names:
        if name not in WRITER_FEATURES:
            raise ConfigError(f"delta.feature.{name}", "lazydelta does not write such tables")
        wanted |= {name, *_DEPENDENCIES.get(name, ())}
    for_readers = wanted & _READER_WRITER
    if wanted <= supported_by_table(protocol) and for_readers <= _known_to_readers(protocol):
        return protocol
    writer = wanted | supported_by_table(protocol)
    if for_readers <= _known_to_readers(protocol):
        reader_version, reader = protocol.min_reader_version, protocol.reader_features
    else:
        reader_version = _NEWEST_READER_VERSION
        reader = tuple(sorted(for_readers | _known_to_readers(protocol)))
    return TableProtocol(
        min_reader_version=reader_version,
        min_writer_version=_NEWEST_WRITER_VERSION,
        reader_features=reader,
        writer_features=tuple(sorted(writer)),
    )


def _known_to_readers(protocol: TableProtocol) -> frozenset[str]:
    """Return the features that the protocol lets readers meet, legacy versions spelt out."""
    if protocol.min_reader_version >= _NEWEST_READER_VERSION:
        return frozenset(protocol.reader_features or ())
    return frozenset(_LEGACY_READER_FEATURES.get(protocol.min_reader_version, ()))


def allows_column_mapping(protocol: TableProtocol) -> bool:
    """Whether `delta.columnMapping.mode` may be honoured: the property alone is not enough."""
    if protocol.min_reader_version >= _NEWEST_READER_VERSION:
        return "columnMapping" in (protocol.reader_features or ())
    return protocol.min_reader_version == 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """What lazydelta can do with a table, and the first reason why not."""

    table: str
    version: int
    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...]
    writer_features: tuple[str, ...]
    active_features: tuple[str, ...]
    decision: str  # "readable" | "not-readable"
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def compatibility(
    table: str, version: int, protocol: TableProtocol, metadata: TableMetadata
) -> Compatibility:
    """Judge a table by its protocol."""
    features = unreadable_features(protocol)
    reason = ""
    if features:
        reason = why_unreadable(features) or f"unsupported: {', '.join(features)}"
    return Compatibility(
        table=table,
        version=version,
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        reader_features=tuple(sorted(protocol.reader_features or ())),
        writer_features=tuple(sorted(protocol.writer_features or ())),
        active_features=_active(protocol, metadata.configuration),
        decision="not-readable" if features else "readable",
        reason=reason,
    )


def switched_on(configuration: Mapping[str, str]) -> frozenset[str]:
    """Return the features that a table's properties put to use, allowed by its protocol or not."""
    found = {
        feature
        for feature, (key, value) in _SWITCHES.items()
        if configuration.get(key, "").lower() == value
    }
    if configuration.get("delta.columnMapping.mode", "none").lower() != "none":
        found.add("columnMapping")
    if any(key.startswith(_CONSTRAINT) for key in configuration):
        found.add("checkConstraints")
    return frozenset(found)


def _active(protocol: TableProtocol, configuration: Mapping[str, str]) -> tuple[str, ...]:
    allowed = supported_by_table(protocol)
    if allows_column_mapping(protocol):
        allowed |= {"columnMapping"}
    return tuple(sorted(switched_on(configuration) & allowed))
