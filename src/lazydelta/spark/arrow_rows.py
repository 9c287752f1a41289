"""Our batches in the very Arrow schema that Spark expects of a schema of its own.

Rows are shown as Spark's Delta reader shows them: every column may be null, and what only the log
needs to know of a column (ids, physical names) is not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from lazydelta._arrow import from_numpy
from lazydelta.errors import SchemaError
from lazydelta.spark.log_schema import table_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.snapshot import Snapshot

__all__ = ["for_spark", "shown_schema"]


def shown_schema(
    snapshot: Snapshot, columns: Sequence[str] | None, more: Sequence[t.StructField] = ()
) -> t.StructType:
    """Return the schema of a read.

    Args:
        snapshot: The version that is read.
        columns: The columns wanted, which exist; None is all.
        more: What a read has beside the table's columns.
    """
    fields = [*table_schema(snapshot).fields, *more]
    plain = {f.name: t.StructField(f.name, _nullable(f.dataType)) for f in fields}
    return t.StructType([plain[name] for name in (plain if columns is None else columns)])


def for_spark(batches: Iterable[pa.RecordBatch], schema: t.StructType) -> Iterator[pa.RecordBatch]:
    """Yield batches, whose columns are those of the schema, as Spark checks them."""
    target = _arrow_schema(schema)
    for batch in batches:
        if batch.schema.equals(target):
            yield batch
            continue
        arrays = [
            _as(array, field.type) for array, field in zip(batch.columns, target, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=target)


def _arrow_schema(schema: t.StructType) -> pa.Schema:
    return pa.schema([pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in schema])


def _arrow_type(kind: t.DataType) -> pa.DataType:
    """Return the Arrow type that Spark expects of one of its own.

    Its own function for this is not public, and differs from release to release.
    """
    match kind:
        case t.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case t.StringType():  # with whichever collation
            return pa.string()
        case t.StructType():
            return pa.struct(list(_arrow_schema(kind)))
        case t.ArrayType():
            element = pa.field("element", _arrow_type(kind.elementType), kind.containsNull)
            return pa.list_(element)
        case t.MapType():
            value = pa.field("value", _arrow_type(kind.valueType), kind.valueContainsNull)
            return pa.map_(_arrow_type(kind.keyType), value)
    if type(kind) not in _ARROW:
        raise SchemaError(f"there is no way to show a column of type {kind.simpleString()}")
    return _ARROW[type(kind)]


_ARROW: dict[type[t.DataType], pa.DataType] = {
    t.BooleanType: pa.bool_(),
    t.ByteType: pa.int8(),
    t.ShortType: pa.int16(),
    t.IntegerType: pa.int32(),
    t.LongType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.BinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimestampType: pa.timestamp("us", "UTC"),
    t.TimestampNTZType: pa.timestamp("us"),
    t.NullType: pa.null(),
    t.VariantType: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    ),
}


def _nullable(kind: t.DataType) -> t.DataType:
    match kind:
        case t.StructType():
            return t.StructType([t.StructField(f.name, _nullable(f.dataType)) for f in kind])
        case t.ArrayType():
            return t.ArrayType(_nullable(kind.elementType))
        case t.MapType():
            return t.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array in a type that differs in the order of a struct's parts, or in null flags."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        parts = [
            _as(pc.struct_field(array, array.type.get_field_index(part.name)), part.type)
            for part in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = _as(array.values, kind.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=_nulls(array))
    if pa.types.is_map(kind):
        keys, items = _as(array.keys, kind.key_type), _as(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind, mask=_nulls(array))
    return array.cast(kind)


def _offsets(array: pa.Array) -> pa.Array:
    """Return where lists begin, as an array of its own: a slice does not go with a mask."""
    return from_numpy(array.offsets.to_numpy())


def _nulls(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None
