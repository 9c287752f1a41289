"""Parse column declarations of a caller (SQL, JSON, Arrow, mappings) into a schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lazydelta.errors import PredicateError, SchemaError
from lazydelta.expressions import col
from lazydelta.expressions.nodes import Column
from lazydelta.schema import (
    StructField,
    StructType,
    from_arrow_schema,
    parse_column_type,
    parse_columns,
    parse_schema,
)

__all__ = ["Columns", "as_path", "as_schema", "fields_with_paths"]

Columns: TypeAlias = StructType | pa.Schema | str | Mapping[str, Any] | Sequence[Any]
"""A Delta or Arrow schema, SQL column definitions, a schema in JSON, a mapping of names to types,
or a list of Delta or Arrow fields."""


def as_schema(columns: Columns, *, where: str) -> StructType:
    """Return the schema of declared columns.

    >>> print(as_schema({"id": "bigint", "at": pa.date32()}, where="trips"))
    struct<id: long, at: date>

    Args:
        columns: In any of the forms.
        where: The table, for errors.

    Raises:
        SchemaError: They cannot be parsed.
    """
    if isinstance(columns, StructType):
        return columns
    if isinstance(columns, pa.Schema):
        return from_arrow_schema(columns)
    if isinstance(columns, str):
        if columns.lstrip().startswith("{"):
            return parse_schema(columns, where=where)
        return parse_columns(columns)
    if isinstance(columns, Mapping):
        return StructType(tuple(_field(name, kind) for name, kind in columns.items()))
    if isinstance(columns, Sequence) and not isinstance(columns, bytes):
        return StructType(tuple(_as_field(item) for item in columns))
    raise SchemaError(f"columns cannot be declared as {type(columns).__name__}", where)


def fields_with_paths(columns: Columns, *, where: str) -> list[tuple[tuple[str, ...], StructField]]:
    """Return declared fields with their paths.

    The keys of a mapping are paths, which may lead into structs, lists and maps. In the other
    forms a dot is part of the name.
    """
    fields = []
    for item in as_schema(columns, where=where):
        path = as_path(item.name) if isinstance(columns, Mapping) else (item.name,)
        fields.append((path, StructField(path[-1], item.type, item.nullable, item.metadata)))
    return fields


def as_path(column: str | Sequence[str]) -> tuple[str, ...]:
    """Parse the path of a column: `a.b`, `a.element.b`, or a sequence of its parts.

    >>> as_path("trip.`the day`")
    ('trip', 'the day')

    Raises:
        SchemaError: The string is not a path.
    """
    try:
        node = col(column).node
    except PredicateError as error:
        cure = "quote special characters with backticks"
        raise SchemaError(f"{column!r} is not a column path: {error.reason}; {cure}") from None
    return node.path if isinstance(node, Column) else ()


def _field(name: str, kind: Any) -> StructField:
    if isinstance(kind, str):
        return StructField(name, parse_column_type(kind))
    if isinstance(kind, pa.DataType):
        return _as_field(pa.field(name, kind))
    return StructField(name, kind)


def _as_field(item: Any) -> StructField:
    if isinstance(item, StructField):
        return item
    if isinstance(item, pa.Field):
        return as_schema(pa.schema([item]), where=item.name).fields[0]
    raise SchemaError(f"a column must be a StructField or a pyarrow Field, not {item!r:.80}")
