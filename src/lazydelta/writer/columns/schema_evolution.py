"""Schema evolution by a write: merge the schema of the rows, or replace the table's schema.

Protocol and metadata evolve with the schema, because new columns need ids under column mapping,
and new types need table features. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError, SchemaMismatchError, UnsupportedFeatureError
from lazydelta.protocol import TableProperties
from lazydelta.protocol.features import (
    WRITER_FEATURES,
    allows_column_mapping,
    supported_features,
    with_features,
)
from lazydelta.schema import ArrayType, DataType, MapType, StructField, StructType, schema_to_json
from lazydelta.schema.evolution import TYPE_CHANGES, merge_schemas
from lazydelta.schema.mapping import assign_column_ids, without_column_ids
from lazydelta.writer.columns.column_names import check_names, check_partition_columns
from lazydelta.writer.properties.property_validation import MAX_COLUMN_ID, is_enabled
from lazydelta.writer.properties.required_protocol import required_features

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "TableDefinition",
    "check_void",
    "check_void_within",
    "widened_columns",
    "with_merged_schema",
    "with_replaced_schema",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """Protocol, metadata and schema of a table: its state apart from its files."""

    table: str
    protocol: TableProtocol
    metadata: TableMetadata
    schema: StructType
    """The schema of `metadata`, parsed."""

    @classmethod
    def of(cls, snapshot: SnapshotState) -> TableDefinition:
        """Return the definition of a version."""
        return cls(
            table=snapshot.store.root,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            schema=snapshot.schema,
        )


def with_merged_schema(definition: TableDefinition, incoming: StructType) -> TableDefinition:
    """Return the definition with the new columns of an input schema; the same object if none."""
    widen = is_enabled(definition.metadata.configuration, "delta.enableTypeWidening") and (
        "typeWidening" in supported_features(definition.protocol)
    )
    merged = merge_schemas(definition.schema, incoming, widen=widen)
    return _with_schema(definition, _with_partition_dates(merged, definition))


def with_replaced_schema(definition: TableDefinition, incoming: StructType) -> TableDefinition:
    """Return the definition with its schema replaced by an input schema.

    A column that keeps its name keeps its comment, default and constraints: constraints are only
    dropped on request. Under column mapping every column gets a new id.

    Returns:
        The same object if the schema is unchanged.

    Raises:
        SchemaMismatchError: The input has no value for a partition column.
        SchemaError: An invalid partition column.
        UnsupportedFeatureError: The table is clustered.
    """
    missing = [name for name in definition.metadata.partition_columns if incoming.get(name) is None]
    if missing:
        raise SchemaMismatchError(
            definition.table,
            tuple(
                f"column {name!r}: missing, and the table is partitioned by it" for name in missing
            ),
            "Add the partition columns to the rows, or create a new table without them.",
        )
    unmapped = without_column_ids(definition.schema)
    new_schema = StructType(tuple(_inherited(part, unmapped.get(part.name)) for part in incoming))
    requested = definition.metadata.partition_columns
    partitions = check_partition_columns(new_schema, requested, table=definition.table)
    if partitions != requested:
        definition = replace(
            definition, metadata=replace(definition.metadata, partition_columns=partitions)
        )
    is_unchanged = new_schema == unmapped
    if "clustering" in supported_features(definition.protocol) and (partitions or not is_unchanged):
        reason = "a new schema or partitioning would contradict the columns it is clustered by"
        raise UnsupportedFeatureError(definition.table, ("clustering",), "write", reason)
    return definition if is_unchanged else _with_schema(definition, new_schema)


def _with_partition_dates(merged: StructType, definition: TableDefinition) -> StructType:
    """Return the schema with partition columns of type date not widened.

    The log stores their values as dates, and not every engine parses a date as a timestamp.
    """
    old = {part.name: part for part in definition.schema if str(part.type) == "date"}
    dates = {name: old[name] for name in definition.metadata.partition_columns if name in old}
    kept = StructType(tuple(dates.get(part.name, part) for part in merged))
    return definition.schema if kept == definition.schema else kept


def widened_columns(old: StructType, new: StructType) -> frozenset[str]:
    """Return the top-level columns with a widened type at any depth."""
    before = {path: part.metadata.get(TYPE_CHANGES) for path, part in old.all_fields()}
    return frozenset(
        path[0]
        for path, part in new.all_fields()
        if path in before and part.metadata.get(TYPE_CHANGES) != before[path]
    )


def _inherited(incoming: StructField, existing: StructField | None) -> StructField:
    if existing is None:
        return incoming
    kind = _inherited_type(incoming.type, existing.type)
    metadata = dict(existing.metadata)
    if kind != existing.type:
        metadata.pop(TYPE_CHANGES, None)
    return StructField(existing.name, kind, incoming.nullable and existing.nullable, metadata)


def _inherited_type(incoming: DataType, existing: DataType) -> DataType:
    match incoming, existing:
        case StructType(fields), StructType():
            return StructType(tuple(_inherited(part, existing.get(part.name)) for part in fields))
        case ArrayType(element, contains_null), ArrayType(other, other_contains_null):
            return ArrayType(_inherited_type(element, other), contains_null and other_contains_null)
        case MapType(key, value, contains_null), MapType(other_key, other, other_contains_null):
            keys, values = _inherited_type(key, other_key), _inherited_type(value, other)
            return MapType(keys, values, contains_null and other_contains_null)
        case _:
            return incoming


def _with_schema(definition: TableDefinition, schema: StructType) -> TableDefinition:
    if schema is definition.schema:
        return definition
    configuration = dict(definition.metadata.configuration)
    # The property has no effect without the feature. Physical names assigned now would hide all
    # existing columns once the feature is enabled.
    mode = TableProperties.parse(configuration).column_mapping_mode
    is_mapped = mode != "none" and allows_column_mapping(definition.protocol)
    check_names(schema, configuration, mapped=is_mapped, table=definition.table)
    if is_mapped:
        max_id = configuration.get(MAX_COLUMN_ID, "0")
        if not max_id.isdecimal():
            reason = f"cannot assign column ids: {MAX_COLUMN_ID} is {max_id!r}"
            raise SchemaError(reason, definition.table)
        schema, last = assign_column_ids(schema, last_id=int(max_id), keep_names=False)
        configuration[MAX_COLUMN_ID] = str(last)
    needed = required_features(schema, {}) - required_features(definition.schema, {})
    metadata = replace(
        definition.metadata, schema_string=schema_to_json(schema), configuration=configuration
    )
    unwritable = tuple(sorted(needed - WRITER_FEATURES))
    if unwritable:
        raise UnsupportedFeatureError(
            definition.table, unwritable, "write", "a new column needs it"
        )
    protocol = with_features(definition.protocol, sorted(needed))
    return TableDefinition(
        table=definition.table, protocol=protocol, metadata=metadata, schema=schema
    )


def check_void(schema: StructType, table: str) -> None:
    """Refuse void columns that Parquet files cannot omit.

    Raises:
        SchemaError: All columns are void, or one inside a list or a map is.
    """
    if _is_void(schema):
        raise SchemaError("all columns are void (every value is null); give one a type", table)
    check_void_within(schema, table)


def check_void_within(columns: Iterable[StructField], table: str) -> None:
    """Refuse nested void fields that Parquet files can neither store nor omit.

    Raises:
        SchemaError: All fields of a struct are void, or an element, a key or a value is.
    """
    for part in columns:
        _check_nested(part.type, part.name, table)


def _check_nested(kind: DataType, path: str, table: str) -> None:
    match kind:
        case StructType(fields):
            if _is_void(kind):
                raise SchemaError(f"all fields of column {path!r} are void; give one a type", table)
            for part in fields:
                _check_nested(part.type, f"{path}.{part.name}", table)
        case ArrayType(element):
            _refuse_void(element, f"{path}.element", table)
        case MapType(key, value):
            _refuse_void(key, f"{path}.key", table)
            _refuse_void(value, f"{path}.value", table)


def _refuse_void(kind: DataType, path: str, table: str) -> None:
    """Refuse void anywhere inside a list or a map: files omit fields of structs only."""
    if str(kind) in ("void", "null"):
        raise SchemaError(f"{path!r} is void (every value is null); give it a type", table)
    _check_nested(kind, path, table)
    if isinstance(kind, StructType):
        for part in kind:
            _refuse_void(part.type, f"{path}.{part.name}", table)


def _is_void(schema: StructType) -> bool:
    return all(str(part.type) in ("void", "null") for part in schema)
