"""The table features that a schema and table properties require.

A feature is required if its property is on, or if a column has a type or metadata that belongs to
it. Pure; `protocol.table_features` derives the protocol that supports a feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError, SchemaError, UnsupportedFeatureError
from lazydelta.protocol import TableProtocol
from lazydelta.protocol.features import (
    WRITER_FEATURES,
    allows_column_mapping,
    enabled_features,
    supported_features,
    with_features,
)
from lazydelta.schema import ArrayType, DecimalType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lazydelta.schema import DataType
    from lazydelta.writer.properties.property_validation import RequestedProperties

__all__ = ["BASE_PROTOCOL", "required_features", "upgraded_protocol"]

_TYPE_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_METADATA_FEATURES = {
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
    "delta.typeChanges": "typeWidening",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}
BASE_PROTOCOL = TableProtocol(min_reader_version=1, min_writer_version=2)
"""The protocol of a new table that needs no feature."""
_NEWEST_VERSIONS = (3, 7)
_UNDECLARED = {
    "clustering": "lazydelta cannot declare clustering columns",
}
"""Features that lazydelta writes to on existing tables, but cannot enable."""
_CURE = "Leave out the property, the type or the name of the feature that requests it."
_LENGTH_LIMITED = ("char(", "varchar(")
_WRITABLE_TYPES = frozenset(
    {
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "variant",
        "void",
    }
)


def required_features(schema: StructType, configuration: Mapping[str, str]) -> frozenset[str]:
    """Return the table features that a schema and properties require.

    Raises:
        SchemaError: A column has a type that lazydelta does not write.
    """
    features = set(enabled_features(configuration))
    for path, field in schema.all_fields():
        keys = _METADATA_FEATURES.keys() & field.metadata.keys()
        features.update(_METADATA_FEATURES[key] for key in keys)
        features.update(_type_features(path, field.type))
    return frozenset(features)


def upgraded_protocol(
    protocol: TableProtocol, required: Iterable[str], *, requested: RequestedProperties, table: str
) -> TableProtocol:
    """Return the lowest protocol that supports the features; the same object if unchanged.

    The lowest one keeps the table open to older readers and writers.

    Raises:
        UnsupportedFeatureError: lazydelta cannot write a table with such a feature.
        ConfigError: A version that does not exist.
    """
    supported = supported_features(protocol)
    names = {n for n in (*required, *requested.features) if f"{n}-preview" not in supported}
    new = names - supported
    unsupported = tuple(sorted(new - WRITER_FEATURES))
    if unsupported:
        raise UnsupportedFeatureError(table, unsupported, "upgrade", cure=_CURE)
    for feature in sorted(new & _UNDECLARED.keys()):
        raise UnsupportedFeatureError(table, (feature,), "upgrade", _UNDECLARED[feature], _CURE)
    protocol = with_features(protocol, sorted(names))
    return _with_versions(protocol, requested.min_reader_version, requested.min_writer_version)


def _with_versions(
    protocol: TableProtocol, reader: int | None, writer: int | None
) -> TableProtocol:
    """Return the protocol with at least these versions, its features listed from version 7 on."""
    reader = max(reader or 1, protocol.min_reader_version)
    writer = max(writer or 1, protocol.min_writer_version)
    newest_reader, newest_writer = _NEWEST_VERSIONS
    if reader > newest_reader or writer > newest_writer:
        reason = f"the newest versions are {newest_reader} for readers, {newest_writer} for writers"
        raise ConfigError("delta.minReaderVersion, delta.minWriterVersion", reason)
    writer = {1: writer, 2: max(writer, 5), 3: newest_writer}[reader]
    if (reader, writer) == (protocol.min_reader_version, protocol.min_writer_version):
        return protocol
    if writer < newest_writer:
        return TableProtocol(min_reader_version=reader, min_writer_version=writer)
    for_readers = protocol.reader_features
    if reader == newest_reader and for_readers is None:
        for_readers = ("columnMapping",) if allows_column_mapping(protocol) else ()
    features = {*supported_features(protocol), *(for_readers or ())}
    features |= {"columnMapping"} if reader == 2 else set()
    return TableProtocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=for_readers,
        writer_features=tuple(sorted(features)),
    )


def _type_features(path: tuple[str, ...], kind: DataType) -> Iterator[str]:
    match kind:
        case ArrayType(element):
            yield from _type_features((*path, "element"), element)
        case MapType(key, value):
            yield from _type_features((*path, "key"), key)
            yield from _type_features((*path, "value"), value)
        case StructType() | DecimalType():
            return  # the fields of a struct are visited on their own
        case _ if kind.name in _WRITABLE_TYPES or kind.name.startswith(_LENGTH_LIMITED):
            if kind.name in _TYPE_FEATURES:
                yield _TYPE_FEATURES[kind.name]
        case _:
            name = ".".join(path)
            raise SchemaError(f"column {name!r}: lazydelta cannot write type {kind.name!r}")
