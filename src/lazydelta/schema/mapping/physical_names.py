"""Physical names: the column names that data files, statistics and partition values use.

The mode is `none`, `name` or `id`; both mapped modes use the physical name in the log. A physical
name and an id belong to one field for ever and are never reused.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError
from lazydelta.schema.mapping.column_ids import (
    COLUMN_ID,
    PHYSICAL_NAME,
    check_unique_ids,
    inner_types,
    replace_structs,
)
from lazydelta.schema.types import DataType, PrimitiveType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "check_mapping",
    "file_only_column",
    "physical_name",
    "physical_path",
    "to_physical",
]

_MODES = ("none", "name", "id")


def physical_name(field: StructField, mode: str) -> str:
    """Return the physical name of a field.

    Raises:
        SchemaError: The mode is unknown, or the field has no physical name although it is mapped.
    """
    if mode == "none":
        return field.name
    if mode not in _MODES:
        raise SchemaError(f"delta.columnMapping.mode is {mode!r}; known are {', '.join(_MODES)}")
    name = field.metadata.get(PHYSICAL_NAME)
    if not isinstance(name, str) or not name:
        raise SchemaError(
            f"field {field.name!r} has no {PHYSICAL_NAME}, which column mapping mode "
            f"{mode!r} needs; the table's metadata is corrupt"
        )
    return name


def file_only_column(name: str, type_name: str) -> StructField:
    """Return a column of data files that the table's schema does not have (`_change_type`).

    Its physical name is its name in every mode. It has no id, because the table may assign any
    unused id to another column later.

    Args:
        name: The column's name.
        type_name: The name of its primitive type.
    """
    return StructField(name, PrimitiveType(type_name), metadata={PHYSICAL_NAME: name})


def physical_path(schema: StructType, path: Sequence[str], mode: str) -> tuple[str, ...]:
    """Return the physical path of a logical path.

    Raises:
        ColumnNotFoundError: The schema has no such path.
    """
    return tuple(physical_name(field, mode) for field in schema.find(path))


def to_physical(schema: StructType, mode: str) -> StructType:
    """Return the schema with the physical names of all fields, at any depth.

    Raises:
        SchemaError: A physical name is missing, or two fields of one struct share it.
    """
    if mode == "none":
        return schema
    return _physical_struct(schema, mode)


def check_mapping(schema: StructType, mode: str, *, supported: bool = True) -> None:
    """Validate that no two columns map to the same column of the data files.

    Args:
        schema: The logical schema.
        mode: The table property `delta.columnMapping.mode`.
        supported: Whether the protocol supports column mapping. If not, the mode is ignored, as
            the protocol requires, unless columns have physical names: they would read as null.

    Raises:
        SchemaError: A physical name is missing or shared by two fields of one struct; in mode
            `id`, an id is missing or shared; or columns are mapped without support.
    """
    if not supported:
        if mode != "none" and _has_physical_names(schema):
            raise SchemaError(
                f"delta.columnMapping.mode is {mode!r} and columns have physical names, but the "
                "protocol does not support columnMapping, so data files may use either name; "
                "upgrade the protocol with the engine that wrote the table"
            )
        return
    to_physical(schema, mode)
    if mode == "id":
        _check_ids_present(schema)
        check_unique_ids(schema)


def _has_physical_names(kind: DataType) -> bool:
    fields = kind if isinstance(kind, StructType) else ()
    return any(f.metadata.get(PHYSICAL_NAME, f.name) != f.name for f in fields) or any(
        map(_has_physical_names, inner_types(kind))
    )


def _check_ids_present(kind: DataType) -> None:
    for field in kind if isinstance(kind, StructType) else ():
        if not isinstance(field.metadata.get(COLUMN_ID), int):
            raise SchemaError(
                f"field {field.name!r} has no {COLUMN_ID}, which column mapping mode 'id' needs; "
                "the table's metadata is corrupt"
            )
    for inner in inner_types(kind):
        _check_ids_present(inner)


def _physical_struct(schema: StructType, mode: str) -> StructType:
    fields = tuple(
        replace(
            field,
            name=physical_name(field, mode),
            type=replace_structs(field.type, partial(_physical_struct, mode=mode)),
        )
        for field in schema
    )
    if len({field.name for field in fields}) != len(fields):
        raise SchemaError(f"two of the fields {', '.join(schema.names)} share a physical name")
    return StructType(fields)
