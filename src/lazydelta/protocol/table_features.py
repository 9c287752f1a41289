"""Table features: what this engine supports, what is active, and whether a table is readable.

The rules of protocol versions and feature lists, without I/O. A reader refuses unknown reader
features by name, and accepts unknown writer features. A writer refuses both.
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

A feature only says what a table may use. A column or property that needs more than this engine
implements (an expression it cannot evaluate, say) is refused by name when a write is planned.
"""

_NEWEST_READER_VERSION = 3
_NEWEST_WRITER_VERSION = 7

# Commits of these tables are ratified elsewhere, so a reader by path may see a stale version.
# Some of them are writer features by the protocol; the refusal covers both lists.
_CATALOG = frozenset(
    {
        "catalogManaged",
        "catalogManaged-preview",
        "catalogOwned",
        "catalogOwned-preview",
        "coordinatedCommits",
        "coordinatedCommits-preview",
    }
)

# The features that each legacy writer version adds (PROTOCOL.md, appendix).
_LEGACY_WRITER_FEATURES = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}

_MAPPING = "columnMapping"
_MAPPING_READER_VERSION = 2
"""The only legacy reader version with a feature: it supports column mapping by itself."""

# Reader-writer features, of those that this engine may add to a table.
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
"""The property, and its value, that activate a feature."""
_CONSTRAINT = "delta.constraints."


def check_protocol(protocol: TableProtocol) -> None:
    """Validate versions against feature lists.

    Raises:
        MalformedActionError: They contradict each other.
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader < 1 or writer < 1:
        raise MalformedActionError(f"protocol versions start at 1, not {reader} and {writer}")
    if reader == _NEWEST_READER_VERSION and protocol.reader_features is None:
        raise MalformedActionError("protocol has minReaderVersion 3 but no readerFeatures")
    if writer == _NEWEST_WRITER_VERSION and protocol.writer_features is None:
        raise MalformedActionError("protocol has minWriterVersion 7 but no writerFeatures")
    if reader == _NEWEST_READER_VERSION and writer < _NEWEST_WRITER_VERSION:
        raise MalformedActionError("protocol has minReaderVersion 3 but minWriterVersion below 7")
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    if readers and reader < _NEWEST_READER_VERSION:
        raise MalformedActionError(f"protocol has readerFeatures but minReaderVersion {reader}")
    if writers and writer < _NEWEST_WRITER_VERSION:
        raise MalformedActionError(f"protocol has writerFeatures but minWriterVersion {writer}")
    # An unknown reader feature is refused by name elsewhere, with a better message.
    if alone := sorted(readers & READER_FEATURES - writers):
        names = ", ".join(alone)
        raise MalformedActionError(f"protocol has {names} in readerFeatures, not in writerFeatures")
    if alone := sorted(writers & READER_FEATURES - _reader_features(protocol)):
        names = ", ".join(alone)
        raise MalformedActionError(
            f"protocol has {names} in writerFeatures, but readers (minReaderVersion {reader}) "
            "are not required to support it"
        )


def unreadable_features(protocol: TableProtocol) -> tuple[str, ...]:
    """Return the unknown reader features, or the reader version, that prevent reading."""
    if protocol.min_reader_version > _NEWEST_READER_VERSION:
        return (f"reader version {protocol.min_reader_version}",)
    unknown = set(protocol.reader_features or ()) - READER_FEATURES
    return tuple(sorted(unknown | (_CATALOG & set(protocol.writer_features or ()))))


def unwritable_features(protocol: TableProtocol) -> tuple[str, ...]:
    """Return the unknown features, or the writer version, that prevent writing."""
    if protocol.min_writer_version > _NEWEST_WRITER_VERSION:
        return (f"writer version {protocol.min_writer_version}",)
    unreadable = unreadable_features(protocol)
    return tuple(sorted({*unreadable, *(supported_by_table(protocol) - WRITER_FEATURES)}))


def why_unreadable(features: tuple[str, ...]) -> str:
    """Return the reason for a refusal, where there is more to say than the name."""
    if _CATALOG & set(features):
        return (
            "commits of this table are ratified by its catalog or commit coordinator, so reading "
            "it by path may return a stale version; open it through its catalog"
        )
    return ""


def supported_by_table(protocol: TableProtocol) -> frozenset[str]:
    """Return every feature that the protocol supports, those of legacy versions by name.

    Column mapping is supported by legacy versions only if both of them support it.
    """
    named = set(protocol.reader_features or ()) | set(protocol.writer_features or ())
    if protocol.min_writer_version < _NEWEST_WRITER_VERSION:
        for version, names in _LEGACY_WRITER_FEATURES.items():
            if version <= protocol.min_writer_version:
                named.update(names)
        if protocol.min_reader_version < _MAPPING_READER_VERSION:
            named.discard(_MAPPING)
    return frozenset(named)


def with_features(protocol: TableProtocol, names: Iterable[str]) -> TableProtocol:
    """Return the least protocol that supports more features: the same object if it does already.

    Legacy versions stay legacy versions where a higher one supports every feature; it then
    supports the features of the versions below as well. Otherwise the result has feature lists,
    which name all features of the legacy versions. The reader version only changes for features
    that readers must support.

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
    for_readers, known_to_readers = wanted & _READER_WRITER, _reader_features(protocol)
    if wanted <= supported_by_table(protocol) and for_readers <= known_to_readers:
        return protocol
    if (legacy := _legacy_protocol(protocol, wanted)) is not None:
        return legacy
    if for_readers <= known_to_readers:
        reader_version, reader = protocol.min_reader_version, protocol.reader_features
    else:
        reader_version = _NEWEST_READER_VERSION
        reader = tuple(sorted(for_readers | known_to_readers))
    return TableProtocol(
        min_reader_version=reader_version,
        min_writer_version=_NEWEST_WRITER_VERSION,
        reader_features=reader,
        writer_features=tuple(sorted(wanted | supported_by_table(protocol) | known_to_readers)),
    )


def _legacy_protocol(protocol: TableProtocol, wanted: set[str]) -> TableProtocol | None:
    """Return the lowest legacy versions from a protocol on that support features, if any do."""
    reader = protocol.min_reader_version
    if _MAPPING in wanted:
        reader = max(reader, _MAPPING_READER_VERSION)
    for writer in range(protocol.min_writer_version, _NEWEST_WRITER_VERSION):
        legacy = TableProtocol(min_reader_version=reader, min_writer_version=writer)
        if wanted <= supported_by_table(legacy):
            return legacy
    return None


def _reader_features(protocol: TableProtocol) -> frozenset[str]:
    """Return the features that readers must support, those of legacy versions by name."""
    if protocol.min_reader_version >= _NEWEST_READER_VERSION:
        return frozenset(protocol.reader_features or ())
    is_mapped = protocol.min_reader_version == _MAPPING_READER_VERSION
    return frozenset({_MAPPING} if is_mapped else ())


def allows_column_mapping(protocol: TableProtocol) -> bool:
    """Whether `delta.columnMapping.mode` is in force; the property alone is not enough."""
    return _MAPPING in _reader_features(protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Whether lazydelta can read a table, and the first reason why not."""

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
    """Return whether the protocol of a table can be read."""
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
    """Return the features that table properties activate, supported by the protocol or not."""
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
    supported = supported_by_table(protocol) | _reader_features(protocol)
    return tuple(sorted(switched_on(configuration) & supported))
