"""Column ids: assigned once per field, with a physical name, and never reused."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lazydelta.errors import SchemaError
from lazydelta.schema.types import ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "COLUMN_ID",
    "PHYSICAL_NAME",
    "assign_column_ids",
    "check_unique_ids",
    "inner_types",
    "replace_structs",
    "without_column_ids",
    "without_metadata",
]

PHYSICAL_NAME = "delta.columnMapping.physicalName"
COLUMN_ID = "delta.columnMapping.id"
_NESTED_IDS = "delta.columnMapping.nested.ids"
_MAPPING_KEYS = frozenset({COLUMN_ID, PHYSICAL_NAME, _NESTED_IDS})

T = TypeVar("T", bound=DataType)


def assign_column_ids(
    schema: StructType, *, last_id: int, keep_names: bool
) -> tuple[StructType, int]:
    """Return the schema with an id and a physical name on every field, and the highest id.

    Fields that have both keep them. Ids are assigned in schema order, parents first.

    Args:
        schema: The logical schema.
        last_id: The highest id that the table ever assigned (`delta.columnMapping.maxColumnId`).
        keep_names: Whether a field without a physical name uses its logical name, because
            existing files use it; otherwise it gets a random one that no field ever had.

    Raises:
        SchemaError: Two fields share an id.
    """
    existing = check_unique_ids(schema)
    assigner = _Assigner(max([last_id, *existing]), keep_names)
    return assigner.struct(schema), assigner.last_id


def check_unique_ids(schema: StructType) -> dict[int, str]:
    """Return the field name of every assigned id.

    Raises:
        SchemaError: Two fields share an id.
    """
    names: dict[int, str] = {}
    _collect_ids(schema, names)
    return names


def without_column_ids(schema: StructType) -> StructType:
    """Return the schema without ids and physical names; another table assigns its own."""
    return without_metadata(schema, _MAPPING_KEYS.__contains__)


def without_metadata(kind: T, is_dropped: Callable[[str], bool]) -> T:
    """Return a type without the matching metadata keys of its fields, at any depth."""

    def without(schema: StructType) -> StructType:
        return StructType(
            tuple(
                replace(
                    field,
                    type=replace_structs(field.type, without),
                    metadata={k: v for k, v in field.metadata.items() if not is_dropped(k)},
                )
                for field in schema
            )
        )

    return cast("T", replace_structs(kind, without))


def inner_types(kind: DataType) -> tuple[DataType, ...]:
    """Return the types directly inside a nested type."""
    match kind:
        case StructType(fields):
            return tuple(field.type for field in fields)
        case ArrayType(element):
            return (element,)
        case MapType(key, value):
            return (key, value)
        case _:
            return ()


def replace_structs(kind: DataType, replacement: Callable[[StructType], StructType]) -> DataType:
    """Return the type with every outermost struct in it replaced."""
    match kind:
        case StructType():
            return replacement(kind)
        case ArrayType(element, contains_null):
            return ArrayType(replace_structs(element, replacement), contains_null)
        case MapType(key, value, contains_null):
            new_key, new_value = (replace_structs(part, replacement) for part in (key, value))
            return MapType(new_key, new_value, contains_null)
        case _:
            return kind


def _collect_ids(kind: DataType, names: dict[int, str]) -> None:
    for field in kind if isinstance(kind, StructType) else ():
        column_id = field.metadata.get(COLUMN_ID)
        if isinstance(column_id, int):
            if column_id in names:
                both = f"{names[column_id]!r} and {field.name!r}"
                raise SchemaError(f"fields {both} share {COLUMN_ID} {column_id}")
            names[column_id] = field.name
    for inner in inner_types(kind):
        _collect_ids(inner, names)


class _Assigner:
    """Assigns consecutive ids above `last_id`."""

    def __init__(self, last_id: int, keep_names: bool) -> None:
        self.last_id = last_id
        self.keep_names = keep_names

    def struct(self, schema: StructType) -> StructType:
        return StructType(tuple(self.field(field) for field in schema))

    def field(self, field: StructField) -> StructField:
        metadata: dict[str, Any] = dict(field.metadata)
        if not isinstance(metadata.get(COLUMN_ID), int):
            self.last_id += 1
            metadata[COLUMN_ID] = self.last_id
        if not metadata.get(PHYSICAL_NAME):
            metadata[PHYSICAL_NAME] = field.name if self.keep_names else f"col-{uuid.uuid4()}"
        return replace(field, type=replace_structs(field.type, self.struct), metadata=metadata)
