"""Conversion between Arrow and Spark: types, schemas and record batches.

Every schema that this package passes to Spark is built here; Spark never infers one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.errors import PySparkValueError
from pyspark.sql import types as t

from lazydelta._arrow import from_numpy
from lazydelta.errors import SchemaError
from lazydelta.schema import StructType, schema_to_json
from lazydelta.spark.spark_releases import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.schema import StructField
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "arrow_schema",
    "conform_batches",
    "declared_schema",
    "described_schema",
    "nullable_type",
    "read_schema",
    "row_size",
    "serialize_table",
    "spark_schema",
    "spark_type",
]

_TO_SPARK: dict[pa.DataType, t.DataType] = {
    pa.bool_(): t.BooleanType(),
    pa.int8(): t.ByteType(),
    pa.int16(): t.ShortType(),
    pa.int32(): t.IntegerType(),
    pa.int64(): t.LongType(),
    pa.float32(): t.FloatType(),
    pa.float64(): t.DoubleType(),
    pa.string(): t.StringType(),
    pa.binary(): t.BinaryType(),
    pa.date32(): t.DateType(),
    pa.timestamp("us"): t.TimestampNTZType(),
    pa.timestamp("us", "UTC"): t.TimestampType(),
}
_TO_ARROW: dict[type[t.DataType], pa.DataType] = {
    **{type(kind): arrow for arrow, kind in _TO_SPARK.items()},
    t.NullType: pa.null(),
    **dict.fromkeys(
        VARIANTS,
        pa.struct(
            [
                pa.field("value", pa.binary(), nullable=False),
                pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
            ]
        ),
    ),
}


# --- Arrow to Spark -------------------------------------------------------------------------------


def spark_type(kind: pa.DataType) -> t.DataType:
    """Return the Spark type of an Arrow type.

    >>> spark_type(pa.map_(pa.string(), pa.string())).simpleString()
    'map<string,string>'

    Raises:
        SchemaError: Spark has no such type, for example nanosecond timestamps.
    """
    if kind in _TO_SPARK:
        return _TO_SPARK[kind]
    if kinds.is_decimal128(kind):
        return t.DecimalType(kind.precision, kind.scale)
    if kinds.is_struct(kind):
        return t.StructType([t.StructField(f.name, spark_type(f.type)) for f in kind])
    if kinds.is_map(kind):
        return t.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if kinds.is_list(kind):
        return t.ArrayType(spark_type(kind.value_type))
    raise SchemaError(f"Spark has no type for Arrow {kind}")


def spark_schema(schema: pa.Schema) -> t.StructType:
    """Return the Spark schema of an Arrow schema; every column is nullable."""
    return t.StructType([t.StructField(f.name, spark_type(f.type)) for f in schema])


def read_schema(
    snapshot: SnapshotState, columns: Sequence[str] | None, extra: Sequence[StructField] = ()
) -> t.StructType:
    """Return the schema of the rows of a read: every part is nullable, without field metadata.

    Args:
        snapshot: The version to read.
        columns: Names of the requested columns, in any case; None is all.
        extra: Columns of the read that are not columns of the table.

    Raises:
        ColumnNotFoundError: A requested column does not exist.
        SchemaError: Spark lacks the type of a column, for example nanosecond timestamps.
    """
    schema = StructType((*snapshot.schema, *extra))
    names = schema.names if columns is None else [schema.find((c,))[0].name for c in columns]
    try:
        # Delta stores schemas in Spark's JSON format.
        known = {f.name: f for f in t.StructType.fromJson(json.loads(schema_to_json(schema)))}
    except PySparkValueError as error:
        raise SchemaError(str(error), snapshot.store.root) from None
    return t.StructType(
        [t.StructField(name, nullable_type(known[name].dataType)) for name in names]
    )


def described_schema(
    snapshot: SnapshotState, columns: Sequence[str] | None, extra: Sequence[StructField] = ()
) -> t.StructType:
    """Return the schema of the rows of a read with comments and other metadata of its columns.

    Metadata of Delta itself (ids, physical names, defaults, generation expressions) is left out.
    Args and errors are those of `read_schema`.
    """
    metadata = {
        field.name: {k: v for k, v in field.metadata.items() if not k.startswith(_INTERNAL)}
        for field in snapshot.schema
    }
    return t.StructType(
        [
            t.StructField(field.name, field.dataType, True, metadata.get(field.name))
            for field in read_schema(snapshot, columns, extra)
        ]
    )


def declared_schema(snapshot: SnapshotState, columns: Sequence[str] | None) -> t.StructType:
    """Return `described_schema` with the columns' NOT NULL, for users: Spark must not plan with it.

    Spark would read a null in a column that it takes for NOT NULL as a value.
    """
    required = {field.name for field in snapshot.schema if not field.nullable}
    return t.StructType(
        [
            t.StructField(field.name, field.dataType, field.name not in required, field.metadata)
            for field in described_schema(snapshot, columns)
        ]
    )


_INTERNAL = ("delta.", "lazydelta.", "__", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""How metadata that is not for readers begins."""


def nullable_type(kind: t.DataType) -> t.DataType:
    """Return a type in which every part is nullable, without field metadata."""
    match kind:
        case t.StructType():
            return t.StructType([t.StructField(f.name, nullable_type(f.dataType)) for f in kind])
        case t.ArrayType():
            return t.ArrayType(nullable_type(kind.elementType))
        case t.MapType():
            return t.MapType(nullable_type(kind.keyType), nullable_type(kind.valueType))
    return kind


_SIZES: dict[type[t.DataType], int] = {
    t.BooleanType: 1,
    t.ByteType: 1,
    t.ShortType: 2,
    t.IntegerType: 4,
    t.FloatType: 4,
    t.DateType: 4,
    t.DecimalType: 16,
    t.StringType: 20,
    t.BinaryType: 100,
    t.NullType: 1,
    **dict.fromkeys(VARIANTS, 2048),
}
"""Bytes of a value in Spark's estimates; others have 8."""


def row_size(kind: t.DataType) -> int:
    """Return the size of a row, or of a value, in Spark's estimates."""
    match kind:
        case t.StructType():
            return 8 + sum(row_size(field.dataType) for field in kind)
        case t.ArrayType():
            return row_size(kind.elementType)
        case t.MapType():
            return row_size(kind.keyType) + row_size(kind.valueType)
    return _SIZES.get(type(kind), 8)


# --- Spark to Arrow -------------------------------------------------------------------------------


def arrow_schema(schema: t.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects from a Python task with this output schema."""
    return pa.schema([pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in schema])


def _arrow_type(kind: t.DataType) -> pa.DataType:
    # PySpark's own function is private and changes between releases.
    match kind:
        case t.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case t.StringType():  # of any collation
            return pa.string()
        case t.StructType():
            return pa.struct(list(arrow_schema(kind)))
        case t.ArrayType():
            element = pa.field("element", _arrow_type(kind.elementType), kind.containsNull)
            return pa.list_(element)
        case t.MapType():
            value = pa.field("value", _arrow_type(kind.valueType), kind.valueContainsNull)
            return pa.map_(_arrow_type(kind.keyType), value)
    if type(kind) not in _TO_ARROW:
        raise SchemaError(f"columns of the Spark type {kind.simpleString()} are not supported")
    return _TO_ARROW[type(kind)]


# --- record batches -------------------------------------------------------------------------------


def conform_batches(
    batches: Iterable[pa.RecordBatch], schema: t.StructType
) -> Iterator[pa.RecordBatch]:
    """Yield batches in the Arrow schema that Spark expects; columns correspond by position."""
    target = arrow_schema(schema)
    for batch in batches:
        if batch.schema.equals(target):
            yield batch
            continue
        arrays = [
            _conform(array, field.type) for array, field in zip(batch.columns, target, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=target)


def serialize_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _conform(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array in a type with another order of struct fields or other nullability."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        children = [
            _conform(pc.struct_field(array, array.type.get_field_index(child.name)), child.type)
            for child in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = _conform(array.values, kind.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=_nulls(array))
    if pa.types.is_map(kind):
        keys, items = _conform(array.keys, kind.key_type), _conform(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind, mask=_nulls(array))
    return array.cast(kind)


def _offsets(array: pa.Array) -> pa.Array:
    """Return list offsets as a new array: `from_arrays` refuses a mask with sliced offsets."""
    return from_numpy(array.offsets.to_numpy())


def _nulls(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None
