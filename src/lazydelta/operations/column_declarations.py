"""The forms in which a caller may declare columns, and the schema they mean. Pure."""

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

__all__ = ["Columns", "as_path", "as_schema", "named_fields"]

Columns: TypeAlias = StructType | pa.Schema | str | Mapping[str, Any] | Sequence[Any]
"""A schema of ours or of Arrow, SQL text, the JSON of a schema, a map of names to types, or a list
of fields of ours or of Arrow."""


def as_schema(columns: Columns, *, where: str) -> StructType:
    """Return the schema that the columns make.

    >>> print(as_schema({"id": "bigint", "at": pa.date32()}, where="trips"))
    struct<id: long, at: date>

    Args:
        columns: In any of the forms.
        where: What they belong to; named in errors.

    Raises:
        SchemaError: They cannot be understood.
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
        return StructType(tuple(_listed(item) for item in columns))
    raise SchemaError(f"columns cannot be given as {type(columns).__name__}", where)


def named_fields(columns: Columns, *, where: str) -> list[tuple[tuple[str, ...], StructField]]:
    """Return new fields with their paths.

    The names of a map are paths, which may lead into structs, lists and maps; in the other forms a
    name is a name.
    """
    found = []
    for item in as_schema(columns, where=where):
        path = as_path(item.name) if isinstance(columns, Mapping) else (item.name,)
        found.append((path, StructField(path[-1], item.type, item.nullable, item.metadata)))
    return found


def as_path(column: str | Sequence[str]) -> tuple[str, ...]:
    """Return the path that names a column: `a.b`, `a.element.b`, or its parts.

    >>> as_path("trip.`the day`")
    ('trip', 'the day')

    Raises:
        SchemaError: The text is no name.
    """
    try:
        node = col(column).node
    except PredicateError as error:
        cure = "odd names go into backticks"
        raise SchemaError(f"{column!r} names no column: {error.reason}; {cure}") from None
    return node.path if isinstance(node, Column) else ()


def _field(name: str, kind: Any) -> StructField:
    if isinstance(kind, str):
        return StructField(name, parse_column_type(kind))
    if isinstance(kind, pa.DataType):
        return _listed(pa.field(name, kind))
    return StructField(name, kind)


def _listed(item: Any) -> StructField:
    if isinstance(item, StructField):
        return item
    if isinstance(item, pa.Field):
        return as_schema(pa.schema([item]), where=item.name).fields[0]
    raise SchemaError(f"a column is a StructField or a pyarrow Field, not {item!r:.80}")
