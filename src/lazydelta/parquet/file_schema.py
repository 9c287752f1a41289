"""What rows look like in a new data file: physical names, field ids, and no columns of nulls.

Pure: Arrow in, Arrow out, and nothing is copied but where a struct has a void field, or is null
although a part of it takes no nulls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from lazydelta.errors import SchemaError
from lazydelta.parquet.null_parents import fill_null_parents
from lazydelta.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    to_arrow_schema,
)
from lazydelta.schema.mapping import to_physical

__all__ = ["FileSchema"]

_VOID = (PrimitiveType("void"), PrimitiveType("null"))
_MOST_LEVELS = 99
"""Arrow writes Parquet of any depth, and reads a hundred levels at most, the root one of them."""


class FileSchema:
    """The columns of a data file, and the way to them from a table's rows.

    Args:
        schema: The columns of the table that go into files, in their order.
        mode: Its column mapping: `none`, `name` or `id`.

    Raises:
        SchemaError: There is nothing to write, a void type where no file can leave it out, or a
            type so deep that its file could not be read.
    """

    def __init__(self, schema: StructType, mode: str) -> None:
        self.columns = tuple(part.name for part in schema if part.type not in _VOID)
        if not self.columns:
            raise SchemaError("rows need at least one column that is neither void nor a partition")
        logical = StructType(tuple(part for part in schema if part.type not in _VOID))
        for part in logical:
            if _levels(part.type) > _MOST_LEVELS:
                raise SchemaError(f"column {part.name!r} is nested too deep to be read from a file")
        written = StructType(tuple(map(_without_void, logical)))
        self._has_void = written != logical
        self._logical = to_arrow_schema(written)
        self.physical = to_physical(written, mode)
        """The columns of a file, under the names that it has them."""
        self.schema = to_arrow_schema(self.physical, field_ids=mode != "none")
        """The same for Arrow, with ids where the table maps columns."""

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table as a file has them."""
        arrays = [rows.column(name) for name in self.columns]
        if self._has_void:
            pairs = zip(arrays, self._logical.types, strict=True)
            arrays = [_reduced(array, kind) for array, kind in pairs]
        arrays = [fill_null_parents(array) for array in arrays]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._logical)
        return pa.record_batch(_Renamed(batch, self.schema))


class _Renamed:
    """A batch under another schema of the same layout: names at any depth change, no value does."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        del requested_schema
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _levels(kind: DataType) -> int:
    """Return how many levels a type has in a file, where a list or a map takes two."""
    match kind:
        case StructType(fields):
            return 1 + max((_levels(part.type) for part in fields), default=0)
        case ArrayType(element):
            return 2 + _levels(element)
        case MapType(key, value):
            return 2 + max(_levels(key), _levels(value))
        case _:
            return 1


def _without_void(part: StructField) -> StructField:
    return replace(part, type=_reduced_type(part.type, part.name))


def _reduced_type(kind: DataType, where: str) -> DataType:
    match kind:
        case StructType(fields):
            kept = tuple(_without_void(part) for part in fields if part.type not in _VOID)
            if not kept:
                raise SchemaError(
                    f"column {where!r} is a struct without a field that a file can hold"
                )
            return StructType(kept)
        case ArrayType(element):
            _refuse_void(element, where)
        case MapType(key, value):
            _refuse_void(key, where)
            _refuse_void(value, where)
    return kind


def _refuse_void(kind: DataType, where: str) -> None:
    """Raise where a list or map holds void: no file can have that, nor leave it out."""
    inner: tuple[DataType, ...] = ()
    match kind:
        case StructType(fields):
            inner = tuple(part.type for part in fields)
        case ArrayType(element):
            inner = (element,)
        case MapType(key, value):
            inner = (key, value)
    if kind in _VOID:
        raise SchemaError(f"column {where!r} holds void inside a list or map; cast it first")
    for part in inner:
        _refuse_void(part, where)


def _reduced(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a struct without the fields that its smaller type does not have."""
    if array.type == kind or not pa.types.is_struct(kind):
        return array
    children = [_reduced(array.field(part.name), part.type) for part in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
