"""Nulls in non-nullable fields, at any depth.

A field of a struct is only required where the struct itself is not null; elements and values only
where their list or map is not. Subtrees of the schema that are fully nullable are skipped.
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

__all__ = ["NullViolation", "is_fully_nullable", "null_violations"]

_ZERO = build_scalar(0, PrimitiveType("integer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NullViolation:
    """A non-nullable field, and the rows in which it is null."""

    path: str
    rows: np.ndarray
    """Indices in the batch, ascending and unique."""


def is_fully_nullable(kind: DataType) -> bool:
    """Whether a type allows nulls at every depth."""
    match kind:
        case StructType(fields):
            return all(part.nullable and is_fully_nullable(part.type) for part in fields)
        case ArrayType(element, contains_null):
            return contains_null and is_fully_nullable(element)
        case MapType(key, value, contains_null):
            return contains_null and all(map(is_fully_nullable, (key, value)))
        case _:
            return True


def null_violations(batch: pa.RecordBatch, schema: StructType) -> Iterator[NullViolation]:
    """Yield each non-nullable field that is null in some row of a batch in the table's schema."""
    for part, column in zip(schema, batch.columns, strict=True):
        if not part.nullable or not is_fully_nullable(part.type):
            yield from _check(column, part.type, part.nullable, part.name, None)


def _check(
    values: pa.Array, kind: DataType, nullable: bool, path: str, rows: np.ndarray | None
) -> Iterator[NullViolation]:
    """Check one field; `rows` maps its values to rows of the batch, None if they coincide."""
    if values.null_count and not nullable:
        nulls = to_numpy(pc.indices_nonzero(values.is_null())).astype(np.int64)
        yield NullViolation(path=path, rows=np.unique(_rows(rows, nulls)))
    if is_fully_nullable(kind):
        return
    if values.null_count:
        valid = to_numpy(pc.indices_nonzero(values.is_valid())).astype(np.int64)
        values, rows = values.take(from_numpy(valid)), _rows(rows, valid)
    match kind:
        case StructType(fields):
            for index, part in enumerate(fields):
                inner = f"{path}.{part.name}"
                yield from _check(values.field(index), part.type, part.nullable, inner, rows)
        case ArrayType(element, contains_null):
            parents = _rows(rows, _parents(pc.list_value_length(values)))
            elements = values.flatten()
            yield from _check(elements, element, contains_null, f"{path}.element", parents)
        case MapType(key, value, contains_null):
            yield from _entries(values, (key, value, contains_null), path, rows)


def _entries(
    values: pa.MapArray, kinds: tuple[DataType, DataType, bool], path: str, rows: np.ndarray | None
) -> Iterator[NullViolation]:
    offsets = to_numpy(values.offsets)
    parents = _rows(rows, np.repeat(np.arange(len(values)), np.diff(offsets)))
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = values.keys.slice(first, count), values.items.slice(first, count)
    yield from _check(keys, kinds[0], False, f"{path}.key", parents)
    yield from _check(items, kinds[1], kinds[2], f"{path}.value", parents)


def _parents(lengths: pa.Array) -> np.ndarray:
    counts = to_numpy(pc.coalesce(lengths, _ZERO))
    return np.repeat(np.arange(len(counts)), counts)


def _rows(rows: np.ndarray | None, index: np.ndarray) -> np.ndarray:
    return index if rows is None else rows[index]
