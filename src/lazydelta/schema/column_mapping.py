"""Column mapping: the names a table shows, and the names its files and log use.

Logical names are for people; physical names are in Parquet files, statistics and partition
values. The mode is `none`, `name` or `id`; the last two both use the physical name in the log.
A physical name and an id belong to a field for ever, and are never given to another one.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lazydelta.errors import SchemaError
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "assign_column_ids",
    "check_mapping",
    "file_only_column",
    "physical_name",
    "physical_path",
    "to_physical",
    "without_column_ids",
    "without_metadata",
]

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_COLUMN_ID = "delta.columnMapping.id"
_NESTED_IDS = "delta.columnMapping.nested.ids"
_IDS = frozenset({_COLUMN_ID, _PHYSICAL_NAME, _NESTED_IDS})
_MODES = ("none", "name", "id")

T = TypeVar("T", bound=DataType)


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


def file_only_column(name: str, kind: str) -> StructField:
    """Return a column that files have beside the table's own, under its own name in every mode.

    It has no id: ids are the table's to give, and another column may get any of them later.

    Args:
        name: Of the column.
        kind: The name of its type, a primitive one.
    """
    return StructField(name, PrimitiveType(kind), metadata={_PHYSICAL_NAME: name})


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


def check_mapping(schema: StructType, mode: str, *, supported: bool = True) -> None:
    """Validate that every column is found at one place of its own in data files.

    Args:
        schema: The logical schema.
        mode: The table property `delta.columnMapping.mode`.
        supported: Whether the protocol supports column mapping. Otherwise the mode is ignored,
            as the protocol asks, unless columns have physical names: they would read as null.

    Raises:
        SchemaError: A physical name is missing, two fields of one level share theirs, an id is
            missing or shared in mode `id`, or the mode is set without support.
    """
    if not supported:
        if mode != "none" and _has_physical_names(schema):
            raise SchemaError(
                f"delta.columnMapping.mode is {mode!r} and columns have physical names, but the "
                "protocol does not support columnMapping, so data files may have either names; "
                "upgrade the protocol with the engine that wrote the table"
            )
        return
    to_physical(schema, mode)
    if mode == "id":
        _check_ids(schema)
        _Assigner(0, keep_names=True).note(schema)


def _has_physical_names(kind: DataType) -> bool:
    fields = kind if isinstance(kind, StructType) else ()
    return any(item.metadata.get(_PHYSICAL_NAME, item.name) != item.name for item in fields) or any(
        map(_has_physical_names, _inner_types(kind))
    )


def _check_ids(kind: DataType) -> None:
    for item in kind if isinstance(kind, StructType) else ():
        if not isinstance(item.metadata.get(_COLUMN_ID), int):
            raise SchemaError(
                f"field {item.name!r} has no {_COLUMN_ID}, which column mapping mode 'id' needs; "
                "the table's metadata is damaged"
            )
    for inner in _inner_types(kind):
        _check_ids(inner)


def _struct(schema: StructType, mode: str) -> StructType:
    fields = tuple(
        replace(
            part,
            name=physical_name(part, mode),
            type=_rebuilt(part.type, partial(_struct, mode=mode)),
        )
        for part in schema
    )
    if len({part.name for part in fields}) != len(fields):
        raise SchemaError(f"two of the fields {', '.join(schema.names)} share a physical name")
    return StructType(fields)


def assign_column_ids(
    schema: StructType, *, last_id: int, keep_names: bool
) -> tuple[StructType, int]:
    """Return the schema with an id and a physical name on every field, and the highest id.

    Fields that have both keep them. Ids are given in the order of the schema, parents first.

    Args:
        schema: The logical schema, in which some or all fields may lack them.
        last_id: The highest id that the table ever gave (`delta.columnMapping.maxColumnId`).
        keep_names: Whether a field without a physical name gets its own name, because files have
            it under that one already; else a random one, which no other field ever had.

    Raises:
        SchemaError: Two fields have one id.
    """
    assigner = _Assigner(last_id, keep_names)
    assigner.note(schema)
    return assigner.struct(schema), assigner.last_id


def without_column_ids(schema: StructType) -> StructType:
    """Return the schema without ids and physical names, for a table that has its own to give."""
    return without_metadata(schema, _IDS.__contains__)


class _Assigner:
    """One assignment: knows the ids in use and the last one given."""

    def __init__(self, last_id: int, keep_names: bool) -> None:
        self.last_id = last_id
        self.keep_names = keep_names
        self.seen: dict[int, str] = {}

    def note(self, kind: DataType) -> None:
        """Take in the ids that fields have already: new ones must lie above all of them."""
        for item in kind if isinstance(kind, StructType) else ():
            given = item.metadata.get(_COLUMN_ID)
            if isinstance(given, int):
                if given in self.seen:
                    both = f"{self.seen[given]!r} and {item.name!r}"
                    raise SchemaError(f"fields {both} have one {_COLUMN_ID}, {given}")
                self.seen[given] = item.name
                self.last_id = max(self.last_id, given)
        for inner in _inner_types(kind):
            self.note(inner)

    def struct(self, schema: StructType) -> StructType:
        return StructType(tuple(self.field(item) for item in schema))

    def field(self, item: StructField) -> StructField:
        metadata: dict[str, Any] = dict(item.metadata)
        if not isinstance(metadata.get(_COLUMN_ID), int):
            self.last_id += 1
            metadata[_COLUMN_ID] = self.last_id
        if not metadata.get(_PHYSICAL_NAME):
            metadata[_PHYSICAL_NAME] = item.name if self.keep_names else f"col-{uuid.uuid4()}"
        return replace(item, type=_rebuilt(item.type, self.struct), metadata=metadata)


def without_metadata(kind: T, dropped: Callable[[str], bool]) -> T:
    """Return a type without some keys in the metadata of its fields, at any depth."""

    def struct(schema: StructType) -> StructType:
        return StructType(
            tuple(
                replace(
                    item,
                    type=_rebuilt(item.type, struct),
                    metadata={k: value for k, value in item.metadata.items() if not dropped(k)},
                )
                for item in schema
            )
        )

    return cast("T", _rebuilt(kind, struct))


def _inner_types(kind: DataType) -> tuple[DataType, ...]:
    match kind:
        case StructType(fields):
            return tuple(item.type for item in fields)
        case ArrayType(element):
            return (element,)
        case MapType(key, value):
            return (key, value)
        case _:
            return ()


def _rebuilt(kind: DataType, struct: Callable[[StructType], StructType]) -> DataType:
    """Return the type with every outermost struct in it replaced."""
    match kind:
        case StructType():
            return struct(kind)
        case ArrayType(element, contains_null):
            return ArrayType(_rebuilt(element, struct), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_rebuilt(key, struct), _rebuilt(value, struct), contains_null)
        case _:
            return kind
