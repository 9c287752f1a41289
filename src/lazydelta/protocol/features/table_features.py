"""Table features: supported by this engine, supported by a protocol, and active.

A reader must refuse unknown reader features, and must ignore features of writers only. A writer
must refuse both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, UnsupportedFeatureError
from lazydelta.protocol.actions import MalformedActionError, TableMetadata, TableProtocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "READER_FEATURES",
    "WRITER_FEATURES",
    "Compatibility",
    "allows_column_mapping",
    "check_protocol",
    "compatibility",
    "enabled_features",
    "supported_features",
    "unreadable_features",
    "unsupported_error",
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
"""Reader features that lazydelta implements."""

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
"""Features of tables that lazydelta writes to.

A supported feature is not always in use. A column or property that needs more than this engine
implements, such as an unknown expression, is refused by name when a write is planned.
"""

# The versions with feature lists, the highest of the protocol; lower ones are legacy versions.
_FEATURES_READER_VERSION = 3
_FEATURES_WRITER_VERSION = 7

# A catalog or coordinator ratifies the commits of these tables, so a read by path may be stale.
# Some of them are writer features, but readers refuse them as well.
_CATALOG_FEATURES = frozenset(
    {
        "catalogManaged",
        "catalogManaged-preview",
        "catalogOwned",
        "catalogOwned-preview",
        "coordinatedCommits",
        "coordinatedCommits-preview",
    }
)

_CATALOG_REASON = (
    "commits of this table are ratified by its catalog or commit coordinator, so reading it by "
    "path may return a stale version"
)
_CATALOG_CURE = "Open it through its catalog."

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
"""The legacy reader version with column mapping, the only feature of one."""

# Those of `WRITER_FEATURES` that readers must support too.
_READER_WRITER_FEATURES = frozenset(
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

_ACTIVATING_PROPERTIES = {
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
"""The property and the value that activate a feature."""
_CONSTRAINT_PREFIX = "delta.constraints."


def check_protocol(protocol: TableProtocol) -> None:
    """Validate the versions and feature lists of a protocol.

    Raises:
        MalformedActionError: They contradict each other.
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader < 1 or writer < 1:
        raise MalformedActionError(f"protocol versions start at 1, not {reader} and {writer}")
    if reader == _FEATURES_READER_VERSION and protocol.reader_features is None:
        raise MalformedActionError("protocol has minReaderVersion 3 but no readerFeatures")
    if writer == _FEATURES_WRITER_VERSION and protocol.writer_features is None:
        raise MalformedActionError("protocol has minWriterVersion 7 but no writerFeatures")
    if reader == _FEATURES_READER_VERSION and writer < _FEATURES_WRITER_VERSION:
        raise MalformedActionError("protocol has minReaderVersion 3 but minWriterVersion below 7")
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    if readers and reader < _FEATURES_READER_VERSION:
        raise MalformedActionError(f"protocol has readerFeatures but minReaderVersion {reader}")
    if writers and writer < _FEATURES_WRITER_VERSION:
        raise MalformedActionError(f"protocol has writerFeatures but minWriterVersion {writer}")
    # Unknown reader features are ignored here: `unreadable_features` refuses them by name.
    if unmatched := sorted(readers & READER_FEATURES - writers):
        names = ", ".join(unmatched)
        raise MalformedActionError(f"protocol has {names} in readerFeatures, not in writerFeatures")
    if unmatched := sorted(writers & READER_FEATURES - _reader_features(protocol)):
        names = ", ".join(unmatched)
        raise MalformedActionError(
            f"protocol has {names} in writerFeatures, but readers (minReaderVersion {reader}) "
            "are not required to support it"
        )


def unreadable_features(protocol: TableProtocol) -> tuple[str, ...]:
    """Return the unknown reader features, or the reader version, that prevent reading."""
    if protocol.min_reader_version > _FEATURES_READER_VERSION:
        return (f"reader version {protocol.min_reader_version}",)
    unknown = set(protocol.reader_features or ()) - READER_FEATURES
    return tuple(sorted(unknown | (_CATALOG_FEATURES & set(protocol.writer_features or ()))))


def unwritable_features(protocol: TableProtocol) -> tuple[str, ...]:
    """Return the unknown features, or the writer version, that prevent writing."""
    if protocol.min_writer_version > _FEATURES_WRITER_VERSION:
        return (f"writer version {protocol.min_writer_version}",)
    unreadable = unreadable_features(protocol)
    return tuple(sorted({*unreadable, *(supported_features(protocol) - WRITER_FEATURES)}))


def unsupported_error(
    table: str, features: tuple[str, ...], access: str
) -> UnsupportedFeatureError:
    """Return the error that refuses to read or write a table with these features."""
    if _CATALOG_FEATURES & set(features):
        return UnsupportedFeatureError(table, features, access, _CATALOG_REASON, _CATALOG_CURE)
    return UnsupportedFeatureError(table, features, access)


def supported_features(protocol: TableProtocol) -> frozenset[str]:
    """Return every feature that the protocol supports, including those of legacy versions.

    Of legacy versions, both the reader and the writer version must support column mapping.
    """
    features = set(protocol.reader_features or ()) | set(protocol.writer_features or ())
    if protocol.min_writer_version < _FEATURES_WRITER_VERSION:
        for version, names in _LEGACY_WRITER_FEATURES.items():
            if version <= protocol.min_writer_version:
                features.update(names)
        if protocol.min_reader_version < _MAPPING_READER_VERSION:
            features.discard(_MAPPING)
    return frozenset(features)


def with_features(protocol: TableProtocol, names: Iterable[str]) -> TableProtocol:
    """Return the minimal upgrade of a protocol to features; the same object if none is needed.

    A legacy protocol gets higher legacy versions if they support every feature. Otherwise it gets
    feature lists, which include the features of its legacy versions. The reader version changes
    only for reader-writer features.

    >>> with_features(TableProtocol(min_reader_version=1, min_writer_version=2), ["rowTracking"])
    TableProtocol(min_reader_version=1, min_writer_version=7, reader_features=None,
        writer_features=('appendOnly', 'domainMetadata', 'invariants', 'rowTracking'))

    Raises:
        ConfigError: lazydelta does not write tables with one of the features.
    """
    required: set[str] = set()
    for name in names:
        if name not in WRITER_FEATURES:
            raise ConfigError(f"delta.feature.{name}", "lazydelta does not write such tables")
        required |= {name, *_DEPENDENCIES.get(name, ())}
    reader_writer, supported_by_readers = (
        required & _READER_WRITER_FEATURES,
        _reader_features(protocol),
    )
    if required <= supported_features(protocol) and reader_writer <= supported_by_readers:
        return protocol
    if (legacy := _legacy_protocol(protocol, required)) is not None:
        return legacy
    if reader_writer <= supported_by_readers:
        reader_version, reader = protocol.min_reader_version, protocol.reader_features
    else:
        reader_version = _FEATURES_READER_VERSION
        reader = tuple(sorted(reader_writer | supported_by_readers))
    return TableProtocol(
        min_reader_version=reader_version,
        min_writer_version=_FEATURES_WRITER_VERSION,
        reader_features=reader,
        writer_features=tuple(
            sorted(required | supported_features(protocol) | supported_by_readers)
        ),
    )


def _legacy_protocol(protocol: TableProtocol, required: set[str]) -> TableProtocol | None:
    """Return the lowest legacy upgrade of a protocol to features, or None if there is none."""
    reader = protocol.min_reader_version
    if _MAPPING in required:
        reader = max(reader, _MAPPING_READER_VERSION)
    for writer in range(protocol.min_writer_version, _FEATURES_WRITER_VERSION):
        legacy = TableProtocol(min_reader_version=reader, min_writer_version=writer)
        if required <= supported_features(legacy):
            return legacy
    return None


def _reader_features(protocol: TableProtocol) -> frozenset[str]:
    """Return the features that readers must support, including those of legacy versions."""
    if protocol.min_reader_version >= _FEATURES_READER_VERSION:
        return frozenset(protocol.reader_features or ())
    has_mapping = protocol.min_reader_version == _MAPPING_READER_VERSION
    return frozenset({_MAPPING} if has_mapping else ())


def allows_column_mapping(protocol: TableProtocol) -> bool:
    """Whether column mapping is supported; if not, `delta.columnMapping.mode` is ignored."""
    return _MAPPING in _reader_features(protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Whether lazydelta can read a table, and the reason if not."""

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
        """Return the fields as JSON-serializable values."""
        return asdict(self)


def compatibility(
    table: str, version: int, protocol: TableProtocol, metadata: TableMetadata
) -> Compatibility:
    """Return the compatibility of a table's protocol with this engine."""
    features = unreadable_features(protocol)
    reason = ""
    if features:
        reason = f"unsupported: {', '.join(features)}"
        if _CATALOG_FEATURES & set(features):
            reason = f"{_CATALOG_REASON}. {_CATALOG_CURE}"
    return Compatibility(
        table=table,
        version=version,
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        reader_features=tuple(sorted(protocol.reader_features or ())),
        writer_features=tuple(sorted(protocol.writer_features or ())),
        active_features=_active_features(protocol, metadata.configuration),
        decision="not-readable" if features else "readable",
        reason=reason,
    )


def enabled_features(configuration: Mapping[str, str]) -> frozenset[str]:
    """Return the features that table properties activate, even without support of the protocol."""
    active = {
        feature
        for feature, (key, value) in _ACTIVATING_PROPERTIES.items()
        if configuration.get(key, "").lower() == value
    }
    if configuration.get("delta.columnMapping.mode", "none").lower() != "none":
        active.add("columnMapping")
    if any(key.startswith(_CONSTRAINT_PREFIX) for key in configuration):
        active.add("checkConstraints")
    return frozenset(active)


def _active_features(protocol: TableProtocol, configuration: Mapping[str, str]) -> tuple[str, ...]:
    supported = supported_features(protocol) | _reader_features(protocol)
    return tuple(sorted(enabled_features(configuration) & supported))
