"""Metadata changes that do not invalidate a transaction planned on the metadata before.

Enabling a feature does not affect data files written without it. Any other change of `metaData`
may, and is a conflict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lazydelta.schema import ArrayType, DataType, MapType, StructType, parse_schema
from lazydelta.schema.mapping import without_metadata

if TYPE_CHECKING:
    from lazydelta.protocol import TableMetadata
    from lazydelta.schema import StructField
    from lazydelta.transaction.table_state import TableState

__all__ = ["is_compatible", "only_moves_identity_marks"]

_ENABLED = {
    "delta.enableRowTracking": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
    "delta.columnMapping.mode": "name",
}
_SET_WITH_THEM = frozenset(
    {
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.columnMapping.maxColumnId",
    }
)
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_IDENTITY_MARK = "delta.identity.highWaterMark"
# Field metadata that does not affect a writer: ids, and physical names, which are compared apart.
_IGNORED = frozenset(
    {
        "delta.columnMapping.id",
        "delta.columnMapping.nested.ids",
        _IDENTITY_MARK,
        _PHYSICAL_NAME,
    }
)


def is_compatible(state: TableState, metadata: TableMetadata) -> bool:
    """Whether a transaction planned on a state is valid under new metadata as well."""
    planned = state.metadata
    same = (
        planned.id == metadata.id
        and planned.name == metadata.name
        and planned.description == metadata.description
        and planned.partition_columns == metadata.partition_columns
        and planned.format_provider == metadata.format_provider
    )
    return same and _only_enables_features(state, metadata) and _same_columns(state, metadata)


def only_moves_identity_marks(before: TableState, after: TableState) -> bool:
    """Whether metadata changed, and only in the high-water marks of identity columns."""
    old, new = before.metadata, after.metadata
    if old.schema_string == new.schema_string:
        return False
    same = replace(new, schema_string=old.schema_string) == old
    is_mark = _IDENTITY_MARK.__eq__
    return same and without_metadata(before.schema, is_mark) == without_metadata(
        after.schema, is_mark
    )


def _only_enables_features(state: TableState, metadata: TableMetadata) -> bool:
    before, after = state.metadata.configuration, metadata.configuration
    if before.keys() - after.keys():
        return False
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    if "delta.columnMapping.mode" in changed and state.mapping_mode != "none":
        return False
    return all(
        key in _SET_WITH_THEM or _ENABLED.get(key) == value.lower()
        for key, value in changed.items()
    )


def _same_columns(state: TableState, metadata: TableMetadata) -> bool:
    if state.metadata.schema_string == metadata.schema_string:
        return True
    schema = parse_schema(metadata.schema_string, where=state.table)
    if state.mapping_mode == "none":
        same_names = all(f.metadata.get(_PHYSICAL_NAME, f.name) == f.name for f in _fields(schema))
    else:
        same_names = _physical_names(state.schema) == _physical_names(schema)
    is_ignored = _IGNORED.__contains__
    return same_names and without_metadata(state.schema, is_ignored) == without_metadata(
        schema, is_ignored
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


def _physical_names(schema: StructType) -> list[object]:
    return [field.metadata.get(_PHYSICAL_NAME) for field in _fields(schema)]
