"""What a table's schema becomes by a write: nothing, more columns, or another one altogether.

Decides protocol and metadata together with the schema, because new columns need ids under column
mapping, and new types need table features. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError, SchemaMismatchError, UnsupportedFeatureError
from lazydelta.protocol import TableProperties
from lazydelta.protocol.features import (
    WRITER_FEATURES,
    allows_column_mapping,
    supported_by_table,
    with_features,
)
from lazydelta.schema import ArrayType, DataType, MapType, StructField, StructType, schema_to_json
from lazydelta.schema.evolution import TYPE_CHANGES, merge_schemas
from lazydelta.schema.mapping import assign_column_ids, without_column_ids
from lazydelta.writer.column_names import check_names, check_partition_columns
from lazydelta.writer.property_validation import MAX_COLUMN_ID, is_on
from lazydelta.writer.required_protocol import all_fields, needed_features

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.protocol import TableMetadata, TableProtocol

__all__ = [
    "TableDefinition",
    "merged_shape",
    "refuse_void",
    "refuse_void_within",
    "replaced_shape",
    "widened_columns",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What a commit says of a table apart from its files."""

    table: str
    protocol: TableProtocol
    metadata: TableMetadata
    schema: StructType
    """Of the metadata, parsed."""


def merged_shape(shape: TableDefinition, given: StructType) -> TableDefinition:
    """Return the table with the columns that rows of a schema bring in addition.

    Returns:
        The same object if nothing is new.
    """
    widen = is_on(shape.metadata.configuration, "delta.enableTypeWidening") and (
        "typeWidening" in supported_by_table(shape.protocol)
    )
    merged = merge_schemas(shape.schema, given, widen=widen)
    return _with_schema(shape, _with_partition_dates(merged, shape))


def replaced_shape(shape: TableDefinition, given: StructType) -> TableDefinition:
    """Return the table with the schema of the rows in place of its own.

    A column that goes on under its name keeps its comment, its default, and its rules; rules never
    vanish unasked. Under column mapping every column is a new one to the files, with a new id.

    Returns:
        The same object if the schema is the table's already.

    Raises:
        SchemaMismatchError: A partition column would be gone.
        SchemaError: A partition column that no table can have.
        UnsupportedFeatureError: The table is clustered.
    """
    gone = [name for name in shape.metadata.partition_columns if given.get(name) is None]
    if gone:
        raise SchemaMismatchError(
            shape.table,
            tuple(f"column {name!r}: missing, and the table is partitioned by it" for name in gone),
            "Give the partition columns, or create a new table without them.",
        )
    bare = without_column_ids(shape.schema)
    wanted = StructType(tuple(_kept(part, bare.get(part.name)) for part in given))
    asked = shape.metadata.partition_columns
    partitions = check_partition_columns(wanted, asked, table=shape.table)
    if partitions != asked:
        shape = replace(shape, metadata=replace(shape.metadata, partition_columns=partitions))
    is_same = wanted == bare
    if "clustering" in supported_by_table(shape.protocol) and (partitions or not is_same):
        reason = "a new schema or partitioning would contradict the columns it is clustered by"
        raise UnsupportedFeatureError(shape.table, ("clustering",), "write", reason)
    return shape if is_same else _with_schema(shape, wanted)


def _with_partition_dates(merged: StructType, shape: TableDefinition) -> StructType:
    """Return the schema with dates that partition as they are.

    The log has their values as texts without a time, and not every engine reads those as moments.
    """
    old = {part.name: part for part in shape.schema if str(part.type) == "date"}
    dates = {name: old[name] for name in shape.metadata.partition_columns if name in old}
    kept = StructType(tuple(dates.get(part.name, part) for part in merged))
    return shape.schema if kept == shape.schema else kept


def widened_columns(old: StructType, new: StructType) -> frozenset[str]:
    """Return the top-level columns that have become wider, themselves or within."""
    before = {path: part.metadata.get(TYPE_CHANGES) for path, part in all_fields(old)}
    return frozenset(
        path[0]
        for path, part in all_fields(new)
        if path in before and part.metadata.get(TYPE_CHANGES) != before[path]
    )


def _kept(given: StructField, known: StructField | None) -> StructField:
    if known is None:
        return given
    kind = _kept_type(given.type, known.type)
    metadata = dict(known.metadata)
    if kind != known.type:
        metadata.pop(TYPE_CHANGES, None)
    return StructField(known.name, kind, given.nullable and known.nullable, metadata)


def _kept_type(given: DataType, known: DataType) -> DataType:
    match given, known:
        case StructType(fields), StructType():
            return StructType(tuple(_kept(part, known.get(part.name)) for part in fields))
        case ArrayType(element, contains_null), ArrayType(other, other_contains_null):
            return ArrayType(_kept_type(element, other), contains_null and other_contains_null)
        case MapType(key, value, contains_null), MapType(other_key, other, other_contains_null):
            keys, values = _kept_type(key, other_key), _kept_type(value, other)
            return MapType(keys, values, contains_null and other_contains_null)
        case _:
            return given


def _with_schema(shape: TableDefinition, schema: StructType) -> TableDefinition:
    if schema is shape.schema:
        return shape
    configuration = dict(shape.metadata.configuration)
    # The property alone maps nothing: names that it gave now would hide all files later.
    mode = TableProperties.parse(configuration).column_mapping_mode
    is_mapped = mode != "none" and allows_column_mapping(shape.protocol)
    check_names(schema, configuration, mapped=is_mapped, table=shape.table)
    if is_mapped:
        known = configuration.get(MAX_COLUMN_ID, "0")
        if not known.isdecimal():
            raise SchemaError(
                f"{MAX_COLUMN_ID} is {known!r}, so a new column has no id", shape.table
            )
        schema, last = assign_column_ids(schema, last_id=int(known), keep_names=False)
        configuration[MAX_COLUMN_ID] = str(last)
    needed = needed_features(schema, {}) - needed_features(shape.schema, {})
    metadata = replace(
        shape.metadata, schema_string=schema_to_json(schema), configuration=configuration
    )
    unwritable = tuple(sorted(needed - WRITER_FEATURES))
    if unwritable:
        raise UnsupportedFeatureError(shape.table, unwritable, "write", "a new column has its type")
    protocol = with_features(shape.protocol, sorted(needed))
    return TableDefinition(table=shape.table, protocol=protocol, metadata=metadata, schema=schema)


def refuse_void(schema: StructType, table: str) -> None:
    """Refuse columns without a type where files could not leave them out.

    Raises:
        SchemaError: Within a list or a map, or where nothing else is.
    """
    if _is_void(schema):
        raise SchemaError("no column has a type: every value is null; give one a type", table)
    refuse_void_within(schema, table)


def refuse_void_within(columns: Iterable[StructField], table: str) -> None:
    """Refuse columns with parts that files could neither hold nor leave out.

    Raises:
        SchemaError: Nothing in a struct has a type, or an element, a key or a value has none.
    """
    for part in columns:
        _refuse_void(part.type, part.name, table)


def _refuse_void(kind: DataType, path: str, table: str) -> None:
    match kind:
        case StructType(fields):
            if _is_void(kind):
                raise SchemaError(f"no part of column {path!r} has a type; give one a type", table)
            for part in fields:
                _refuse_void(part.type, f"{path}.{part.name}", table)
        case ArrayType(element):
            _refuse_untyped(element, f"{path}.element", table)
        case MapType(key, value):
            _refuse_untyped(key, f"{path}.key", table)
            _refuse_untyped(value, f"{path}.value", table)


def _refuse_untyped(kind: DataType, path: str, table: str) -> None:
    """Refuse void anywhere within a list or a map: files leave out parts of plain structs only."""
    if str(kind) in ("void", "null"):
        raise SchemaError(f"{path!r} has no type: every value is null; give it a type", table)
    _refuse_void(kind, path, table)
    if isinstance(kind, StructType):
        for part in kind:
            _refuse_untyped(part.type, f"{path}.{part.name}", table)


def _is_void(schema: StructType) -> bool:
    return all(str(part.type) in ("void", "null") for part in schema)
