"""Changes of metadata that a writer who did not expect them can simply take over.

Switching a feature on changes nothing in files that were written without it. Everything else that
a `metaData` action may change can make such files wrong, and is a conflict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lazydelta.schema import ArrayType, DataType, MapType, StructType, parse_schema

if TYPE_CHECKING:
    from lazydelta.protocol import TableMetadata
    from lazydelta.schema import StructField
    from lazydelta.transaction.transaction_state import Standing

__all__ = ["is_adoptable", "only_moves_marks"]

_SWITCHED_ON = {
    "delta.enableRowTracking": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
    "delta.columnMapping.mode": "name",
}
_SET_ALONG_WITH_IT = frozenset(
    {
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.columnMapping.maxColumnId",
    }
)
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_MARK = "delta.identity.highWaterMark"
# Of these a writer that knows the old values has nothing to fear: ids, and names that are the same.
_HARMLESS_OF_FIELDS = frozenset(
    {
        "delta.columnMapping.id",
        "delta.columnMapping.nested.ids",
        _MARK,
        _PHYSICAL_NAME,
    }
)


def is_adoptable(standing: Standing, metadata: TableMetadata) -> bool:
    """Whether what was planned on the standing's metadata is as right under the new one."""
    known = standing.metadata
    same = (
        known.id == metadata.id
        and known.name == metadata.name
        and known.description == metadata.description
        and known.partition_columns == metadata.partition_columns
        and known.format_provider == metadata.format_provider
    )
    return same and _only_switches_on(standing, metadata) and _same_columns(standing, metadata)


def only_moves_marks(before: Standing, after: Standing) -> bool:
    """Whether metadata changed, and only in how far the rows of identity columns are numbered."""
    old, new = before.metadata, after.metadata
    if old.schema_string == new.schema_string:
        return False
    same = replace(new, schema_string=old.schema_string) == old
    marks = frozenset({_MARK})
    return same and _bare(before.schema, marks) == _bare(after.schema, marks)


def _only_switches_on(standing: Standing, metadata: TableMetadata) -> bool:
    before, after = standing.metadata.configuration, metadata.configuration
    if before.keys() - after.keys():
        return False
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    if "delta.columnMapping.mode" in changed and standing.mapping_mode != "none":
        return False
    return all(
        key in _SET_ALONG_WITH_IT or _SWITCHED_ON.get(key) == value.lower()
        for key, value in changed.items()
    )


def _same_columns(standing: Standing, metadata: TableMetadata) -> bool:
    if standing.metadata.schema_string == metadata.schema_string:
        return True
    schema = parse_schema(metadata.schema_string, where=standing.table)
    if standing.mapping_mode == "none" and not _has_own_names(schema):
        return False
    left_out = _HARMLESS_OF_FIELDS
    return _bare(standing.schema, left_out) == _bare(schema, left_out) and (
        standing.mapping_mode == "none" or _names(standing.schema) == _names(schema)
    )


def _fields(kind: DataType) -> list[StructField]:
    """Return the fields of a type at any depth, in order."""
    match kind:
        case StructType(fields):
            return [part for item in fields for part in (item, *_fields(item.type))]
        case ArrayType(element):
            return _fields(element)
        case MapType(key, value):
            return [*_fields(key), *_fields(value)]
        case _:
            return []


def _names(schema: StructType) -> list[object]:
    return [field.metadata.get(_PHYSICAL_NAME) for field in _fields(schema)]


def _has_own_names(schema: StructType) -> bool:
    """Whether every column is found in files under the name it is shown by."""
    return all(f.metadata.get(_PHYSICAL_NAME, f.name) == f.name for f in _fields(schema))


def _bare(kind: DataType, left_out: frozenset[str]) -> DataType:
    """Return a type without some of what is said of its fields."""
    match kind:
        case StructType(fields):
            return StructType(tuple(_bare_field(item, left_out) for item in fields))
        case ArrayType(element, contains_null):
            return ArrayType(_bare(element, left_out), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_bare(key, left_out), _bare(value, left_out), contains_null)
        case _:
            return kind


def _bare_field(item: StructField, left_out: frozenset[str]) -> StructField:
    kept = {key: value for key, value in item.metadata.items() if key not in left_out}
    return replace(item, type=_bare(item.type, left_out), metadata=kept)
