"""Validate column names and partition columns. Pure.

Some Parquet writers fail on special characters in column names. Delta engines allow them only
under column mapping, where files use physical names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError
from lazydelta.protocol.schemas import CHANGE_COLUMNS
from lazydelta.schema import ArrayType, MapType, StructType, format_path
from lazydelta.writer.columns.identity import is_identity
from lazydelta.writer.properties.property_validation import (
    CHANGE_FEED,
    is_enabled,
    row_tracking_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.schema import DataType, StructField

__all__ = ["check_names", "check_partition_columns"]

_INVALID_CHARACTERS = frozenset(" ,;{}()\n\t=")
_STRING_KEYS = ("comment", "CURRENT_DEFAULT", "delta.generationExpression", "delta.invariants")
_NOT_PARTITIONABLE = ("variant", "void")


def check_names(
    schema: StructType, configuration: Mapping[str, str], *, mapped: bool, table: str
) -> None:
    """Validate the names and the metadata of all fields.

    Args:
        schema: The table's logical schema.
        configuration: Table properties; the change feed and row tracking reserve column names.
        mapped: Whether column mapping is enabled, which allows every character.
        table: The table's URL, for errors.

    Raises:
        SchemaError: Names collide, are reserved or have invalid characters, or field metadata has
            the wrong type.
    """
    if len(schema) == 0:
        raise SchemaError("a table needs at least one column", table)
    _check_collisions(schema, (), table)
    for path, field in schema.all_fields():
        invalid = [] if mapped else sorted(_INVALID_CHARACTERS & set(field.name))
        if invalid:
            cure = "rename it, or enable column mapping (delta.columnMapping.mode = name)"
            reason = f"column {field.name!r} has {invalid[0]!r} in its name"
            raise SchemaError(f"{reason}: {cure}", table)
        if not field.name:
            raise SchemaError("a column has an empty name", table)
        _check_field(path, field, table)
    for field in schema:
        _check_reserved(field.name, configuration, mapped, table)


def _check_reserved(name: str, configuration: Mapping[str, str], mapped: bool, table: str) -> None:
    """Refuse names that the change feed or row tracking reserve."""
    if is_enabled(configuration, CHANGE_FEED) and name.lower() in CHANGE_COLUMNS:
        cure = "rename it, or leave delta.enableChangeDataFeed off"
        raise SchemaError(f"column {name!r} is reserved for the change feed: {cure}", table)
    if not mapped and name in row_tracking_columns(configuration).values():
        raise SchemaError(f"column {name!r} is reserved for row tracking: rename it", table)


def _check_field(path: Sequence[str], field: StructField, table: str) -> None:
    """Refuse field values that are valid JSON but fail in other engines, as a numeric comment."""
    if not isinstance(field.nullable, bool):
        reason = f"column {format_path(path)}: nullable must be a bool, not {field.nullable!r}"
        raise SchemaError(reason, table)
    for key in _STRING_KEYS:
        if not isinstance(field.metadata.get(key, ""), str):
            reason = f"column {format_path(path)}: {key} must be a string"
            raise SchemaError(f"{reason}, not {field.metadata[key]!r}", table)


def check_partition_columns(
    schema: StructType, partition_by: Sequence[str], *, table: str
) -> tuple[str, ...]:
    """Return the partition columns in the case of the schema.

    Raises:
        ColumnNotFoundError: The schema has no such column.
        SchemaError: A column is nested, repeated or of a type without partition values, or no
            data column is left.
    """
    columns: list[str] = []
    for name in partition_by:
        if "." in name and not schema.get(name) and schema.get(name.partition(".")[0]):
            reason = f"{name!r} is nested: only top-level columns can be partition columns"
            raise SchemaError(reason, table)
        field = schema.find((name,))[0]
        reason = f"column {field.name!r} cannot be a partition column"
        if field.name in columns:
            raise SchemaError(f"partition column {field.name!r} is given twice", table)
        if isinstance(field.type, StructType | ArrayType | MapType) or (
            str(field.type) in _NOT_PARTITIONABLE
        ):
            raise SchemaError(f"{reason}: its type is {field.type}", table)
        if is_identity(field):
            raise SchemaError(f"{reason}: it is an identity column", table)
        columns.append(field.name)
    if columns and len(columns) == len(schema):
        reason = "all columns are partition columns: data files would have no column"
        raise SchemaError(f"{reason}. Leave at least one out", table)
    return tuple(columns)


def _check_collisions(kind: DataType, path: tuple[str, ...], table: str) -> None:
    match kind:
        case StructType():
            names: dict[str, str] = {}
            for field in kind:
                folded = field.name.lower()
                if (other := names.get(folded)) is not None:
                    parent = f" in {format_path(path)}" if path else ""
                    both = f"columns {other!r} and {field.name!r}{parent} collide"
                    raise SchemaError(f"{both}: names are case-insensitive", table)
                names[folded] = field.name
                _check_collisions(field.type, (*path, field.name), table)
        case ArrayType(element):
            _check_collisions(element, (*path, "element"), table)
        case MapType(key, value):
            _check_collisions(key, (*path, "key"), table)
            _check_collisions(value, (*path, "value"), table)
