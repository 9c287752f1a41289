"""Nulls where a schema takes none, at any depth.

A part of a struct is only asked for where the struct itself is there; elements and values only
where their list or map is. Parts of the schema that take nulls everywhere are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.schema import ArrayType, DataType, MapType, PrimitiveType, StructType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ForbiddenNulls", "forbidden_nulls", "takes_nulls_everywhere"]

_ZERO = build_scalar(0, PrimitiveType("integer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForbiddenNulls:
    """One place of the schema, and the rows that are null there."""

    path: str
    rows: np.ndarray
    """Indices in the batch, ascending; a row appears once."""


def takes_nulls_everywhere(kind: DataType) -> bool:
    """Whether nothing within a type forbids nulls."""
    match kind:
        case StructType(fields):
            return all(part.nullable and takes_nulls_everywhere(part.type) for part in fields)
        case ArrayType(element, contains_null):
            return contains_null and takes_nulls_everywhere(element)
        case MapType(key, value, contains_null):
            return contains_null and all(map(takes_nulls_everywhere, (key, value)))
        case _:
            return True


def forbidden_nulls(batch: pa.RecordBatch, schema: StructType) -> Iterator[ForbiddenNulls]:
    """Yield every place at which rows of the table's schema are null and must not be."""
    for part, column in zip(schema, batch.columns, strict=True):
        if not part.nullable or not takes_nulls_everywhere(part.type):
            yield from _within(column, part.type, part.nullable, part.name, None)


def _within(
    values: pa.Array, kind: DataType, nullable: bool, path: str, rows: np.ndarray | None
) -> Iterator[ForbiddenNulls]:
    """Look at one place; `rows` says which row of the batch each value is of, None its own."""
    if values.null_count and not nullable:
        nulls = to_numpy(pc.indices_nonzero(values.is_null())).astype(np.int64)
        yield ForbiddenNulls(path=path, rows=np.unique(_rows(rows, nulls)))
    if takes_nulls_everywhere(kind):
        return
    if values.null_count:
        there = to_numpy(pc.indices_nonzero(values.is_valid())).astype(np.int64)
        values, rows = values.take(from_numpy(there)), _rows(rows, there)
    match kind:
        case StructType(fields):
            for at, part in enumerate(fields):
                inner = f"{path}.{part.name}"
                yield from _within(values.field(at), part.type, part.nullable, inner, rows)
        case ArrayType(element, contains_null):
            parents = _rows(rows, _parents(pc.list_value_length(values)))
            elements = values.flatten()
            yield from _within(elements, element, contains_null, f"{path}.element", parents)
        case MapType(key, value, contains_null):
            yield from _entries(values, (key, value, contains_null), path, rows)


def _entries(
    values: pa.MapArray, kinds: tuple[DataType, DataType, bool], path: str, rows: np.ndarray | None
) -> Iterator[ForbiddenNulls]:
    places = to_numpy(values.offsets)
    parents = _rows(rows, np.repeat(np.arange(len(values)), np.diff(places)))
    first, count = int(places[0]), int(places[-1] - places[0])
    keys, items = values.keys.slice(first, count), values.items.slice(first, count)
    yield from _within(keys, kinds[0], False, f"{path}.key", parents)
    yield from _within(items, kinds[1], kinds[2], f"{path}.value", parents)


def _parents(lengths: pa.Array) -> np.ndarray:
    counts = to_numpy(pc.coalesce(lengths, _ZERO))
    return np.repeat(np.arange(len(counts)), counts)


def _rows(rows: np.ndarray | None, at: np.ndarray) -> np.ndarray:
    return at if rows is None else rows[at]
