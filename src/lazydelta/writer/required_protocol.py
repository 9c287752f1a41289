"""The table features that a schema and table properties require.

A feature is required if its property is on, or if a column has a type or metadata that belongs to
it. Pure; `protocol.features` derives the protocol that supports a feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError, SchemaError, UnsupportedFeatureError
from lazydelta.protocol import TableProtocol
from lazydelta.protocol.features import (
    WRITER_FEATURES,
    allows_column_mapping,
    supported_by_table,
    switched_on,
    with_features,
)
from lazydelta.schema import ArrayType, DecimalType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lazydelta.schema import DataType, StructField
    from lazydelta.writer.property_validation import RequestedProperties

__all__ = ["FIRST_PROTOCOL", "all_fields", "needed_features", "needed_protocol"]

_OF_TYPES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_OF_COLUMN_METADATA = {
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
    "delta.typeChanges": "typeWidening",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}
FIRST_PROTOCOL = TableProtocol(min_reader_version=1, min_writer_version=2)
"""The protocol of a new table that needs no feature."""
_NEWEST = (3, 7)
_UNDECLARED = {
    "clustering": "it needs clustering columns, and lazydelta does not declare any",
}
"""Features of tables that lazydelta writes to as they are, but does not make."""
_LIMITED_TEXTS = ("char(", "varchar(")
_KNOWN_TYPES = frozenset(
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


def needed_features(schema: StructType, configuration: Mapping[str, str]) -> frozenset[str]:
    """Return the features without which a table cannot have this schema and these properties.

    Raises:
        SchemaError: A column has a type that lazydelta does not write.
    """
    found = set(switched_on(configuration))
    for path, item in all_fields(schema):
        ruled = _OF_COLUMN_METADATA.keys() & item.metadata.keys()
        found.update(_OF_COLUMN_METADATA[key] for key in ruled)
        found.update(_of_type(path, item.type))
    return frozenset(found)


def needed_protocol(
    protocol: TableProtocol, needed: Iterable[str], *, asked: RequestedProperties, table: str
) -> TableProtocol:
    """Return the least protocol that supports the features; the same object if it does already.

    The least one, so that other writers of the table keep their access.

    Raises:
        UnsupportedFeatureError: lazydelta could not write the table then.
        ConfigError: A version that does not exist.
    """
    has = supported_by_table(protocol)
    wanted = {name for name in (*needed, *asked.features) if f"{name}-preview" not in has}
    new = wanted - has
    unknown = tuple(sorted(new - WRITER_FEATURES))
    if unknown:
        raise UnsupportedFeatureError(table, unknown, "write")
    for feature in sorted(new & _UNDECLARED.keys()):
        raise UnsupportedFeatureError(table, (feature,), "write", _UNDECLARED[feature])
    protocol = with_features(protocol, sorted(wanted))
    return _with_versions(protocol, asked.min_reader_version, asked.min_writer_version)


def _with_versions(
    protocol: TableProtocol, reader: int | None, writer: int | None
) -> TableProtocol:
    """Return the protocol with at least these versions; feature lists name what they support."""
    reader = max(reader or 1, protocol.min_reader_version)
    writer = max(writer or 1, protocol.min_writer_version)
    newest_reader, newest_writer = _NEWEST
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
    features = {*supported_by_table(protocol), *(for_readers or ())}
    features |= {"columnMapping"} if reader == 2 else set()
    return TableProtocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=for_readers,
        writer_features=tuple(sorted(features)),
    )


def all_fields(
    schema: StructType, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Yield every field at any depth with its path, parents first.

    Elements of lists and keys and values of maps are on the path as `element`, `key` and `value`.
    """
    for item in schema:
        path = (*prefix, item.name)
        yield path, item
        yield from _inside(item.type, path)


def _inside(kind: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match kind:
        case StructType():
            yield from all_fields(kind, path)
        case ArrayType(element):
            yield from _inside(element, (*path, "element"))
        case MapType(key, value):
            yield from _inside(key, (*path, "key"))
            yield from _inside(value, (*path, "value"))


def _of_type(path: tuple[str, ...], kind: DataType) -> Iterator[str]:
    match kind:
        case ArrayType(element):
            yield from _of_type((*path, "element"), element)
        case MapType(key, value):
            yield from _of_type((*path, "key"), key)
            yield from _of_type((*path, "value"), value)
        case StructType() | DecimalType():
            return  # the fields of a struct are visited on their own
        case _ if kind.name in _KNOWN_TYPES or kind.name.startswith(_LIMITED_TEXTS):
            if kind.name in _OF_TYPES:
                yield _OF_TYPES[kind.name]
        case _:
            name = ".".join(path)
            raise SchemaError(f"column {name!r}: lazydelta writes no values of type {kind.name!r}")
