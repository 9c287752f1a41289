"""Schema of new data files: physical names, field ids, and no void columns.

Pure: Arrow in, Arrow out. Copies only structs that have a void field, or that are null although
one of their fields is required.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from lazydelta.errors import SchemaError
from lazydelta.parquet.write.null_parents import fill_null_parents
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
_MAX_LEVELS = 99
"""Arrow writes Parquet of any depth, but reads at most a hundred levels, including the root."""


class FileSchema:
    """The columns of a data file, and the conversion of a table's rows to them.

    Args:
        schema: The columns of the table that are stored in files.
        mode: The column mapping mode: `none`, `name` or `id`.

    Raises:
        SchemaError: No column can be written, a list or map holds void, or a type is nested too
            deeply to be read back.
    """

    def __init__(self, schema: StructType, mode: str) -> None:
        self.columns = tuple(part.name for part in schema if part.type not in _VOID)
        if not self.columns:
            raise SchemaError("rows need at least one column that is neither void nor a partition")
        logical = StructType(tuple(part for part in schema if part.type not in _VOID))
        for part in logical:
            if _levels(part.type) > _MAX_LEVELS:
                raise SchemaError(f"column {part.name!r} is nested too deep to be read from a file")
        written = StructType(tuple(map(_without_void, logical)))
        self._has_void = written != logical
        self._logical = to_arrow_schema(written)
        self.physical = to_physical(written, mode)
        """The columns of a file under their physical names."""
        self.schema = to_arrow_schema(self.physical, field_ids=mode != "none")
        """The same in Arrow, with field ids if the table maps columns."""

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table in the schema of the file."""
        arrays = [rows.column(name) for name in self.columns]
        if self._has_void:
            pairs = zip(arrays, self._logical.types, strict=True)
            arrays = [_reduced(array, kind) for array, kind in pairs]
        arrays = [fill_null_parents(array) for array in arrays]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._logical)
        return pa.record_batch(_Renamed(batch, self.schema))


class _Renamed:
    """A batch with another schema of the same layout: renames nested columns without a copy."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        del requested_schema
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _levels(kind: DataType) -> int:
    """Return the levels of a type in a file; a list or map has two."""
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
    """Raise if a list or map holds void: a file can neither store nor omit it."""
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
    """Return a struct without the fields that are not in its reduced type."""
    if array.type == kind or not pa.types.is_struct(kind):
        return array
    children = [_reduced(array.field(part.name), part.type) for part in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
