"""Arrow types of the log as Spark types, and a table's schema as Spark has it.

Every schema that the room hands to Spark is made here, so nothing is ever inferred.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.errors import PySparkValueError
from pyspark.sql import types as t

from lazydelta.errors import SchemaError

if TYPE_CHECKING:
    from lazydelta.snapshot import Snapshot

__all__ = ["spark_schema", "spark_type", "table_schema"]

_SIMPLE: dict[pa.DataType, t.DataType] = {
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


def spark_type(kind: pa.DataType) -> t.DataType:
    """Return the Spark type that holds values of an Arrow type.

    >>> spark_type(pa.map_(pa.string(), pa.string())).simpleString()
    'map<string,string>'

    Raises:
        SchemaError: There is none: of times in nanoseconds, say.
    """
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kinds.is_decimal128(kind):
        return t.DecimalType(kind.precision, kind.scale)
    if kinds.is_struct(kind):
        return t.StructType([t.StructField(f.name, spark_type(f.type)) for f in kind])
    if kinds.is_map(kind):
        return t.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if kinds.is_list(kind):
        return t.ArrayType(spark_type(kind.value_type))
    raise SchemaError(f"Spark has no type for values of {kind}")


def spark_schema(schema: pa.Schema) -> t.StructType:
    """Return a schema for Spark."""
    return t.StructType([t.StructField(f.name, spark_type(f.type)) for f in schema])


def table_schema(snapshot: Snapshot) -> t.StructType:
    """Return the table's schema: Delta writes it the way Spark does.

    Raises:
        SchemaError: A type that Spark does not have: nanoseconds, say.
    """
    try:
        return t.StructType.fromJson(json.loads(snapshot.metadata.schema_string))
    except PySparkValueError as error:
        raise SchemaError(str(error), snapshot.store.root) from None
