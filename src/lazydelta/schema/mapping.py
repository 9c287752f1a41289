"""Column mapping: the names a table shows, and the names its files and log use.

Logical names are for people; physical names are in Parquet files, statistics and partition
values. The mode is `none`, `name` or `id`; the last two both use the physical name in the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError
from lazydelta.schema.types import ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["physical_name", "physical_path", "to_physical"]

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_MODES = ("none", "name", "id")


def physical_name(field: StructField, mode: str) -> str:
    """Return the name that files and log use for this field.

    Raises:
        SchemaError: The mode is unknown, or the field lacks the name that the mode asks for.
    """
    if mode == "none":
        return field.name
    if mode not in _MODES:
        raise SchemaError(f"delta.columnMapping.mode is {mode!r}; known are {', '.join(_MODES)}")
    name = field.metadata.get(_PHYSICAL_NAME)
    if not isinstance(name, str) or not name:
        raise SchemaError(
            f"field {field.name!r} has no {_PHYSICAL_NAME}, which column mapping mode "
            f"{mode!r} needs; the table's metadata is damaged"
        )
    return name


def physical_path(schema: StructType, path: Sequence[str], mode: str) -> tuple[str, ...]:
    """Return the physical form of a logical path.

    Raises:
        ColumnNotFoundError: The schema has no such path.
    """
    return tuple(physical_name(part, mode) for part in schema.find(path))


def to_physical(schema: StructType, mode: str) -> StructType:
    """Return the schema with every field, at any depth, under its physical name.

    Raises:
        SchemaError: A name is missing, or two fields of one level share theirs.
    """
    if mode == "none":
        return schema
    return _struct(schema, mode)


def _struct(schema: StructType, mode: str) -> StructType:
    fields = tuple(
        replace(part, name=physical_name(part, mode), type=_type(part.type, mode))
        for part in schema
    )
    if len({part.name for part in fields}) != len(fields):
        raise SchemaError(f"two of the fields {', '.join(schema.names)} share a physical name")
    return StructType(fields)


def _type(kind: DataType, mode: str) -> DataType:
    match kind:
        case StructType():
            return _struct(kind, mode)
        case ArrayType(element, contains_null):
            return ArrayType(_type(element, mode), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_type(key, mode), _type(value, mode), contains_null)
        case _:
            return kind
