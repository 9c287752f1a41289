"""Delta types as Arrow types: what a reader of rows hands out.

One way only (Delta to Arrow); files with other physical types are cast by whoever reads them.
"""

from __future__ import annotations

import pyarrow as pa

from lazydelta.errors import SchemaError
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

__all__ = ["to_arrow_schema", "to_arrow_type"]

_FIELD_ID = "delta.columnMapping.id"
_PRIMITIVES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp_nanos": pa.timestamp("ns", "UTC"),
    "timestamp_nanos_ntz": pa.timestamp("ns"),
    "void": pa.null(),
    "null": pa.null(),
    "variant": pa.struct(
        [
            pa.field("metadata", pa.binary(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
        ]
    ),
}


def to_arrow_type(kind: DataType, *, field_ids: bool = False) -> pa.DataType:
    """Return the Arrow type that holds values of a Delta type.

    >>> to_arrow_type(PrimitiveType("timestamp"))
    TimestampType(timestamp[us, tz=UTC])

    Raises:
        SchemaError: A type that this engine does not know.
    """
    match kind:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, contains_null):
            inner = to_arrow_type(element, field_ids=field_ids)
            return pa.list_(_field("element", inner, nullable=contains_null))
        case MapType(key, value, contains_null):
            key_type = to_arrow_type(key, field_ids=field_ids)
            if pa.types.is_null(key_type):
                raise SchemaError(f"{kind} cannot be: the keys of a map are never null")
            value_type = to_arrow_type(value, field_ids=field_ids)
            return pa.map_(
                pa.field("key", key_type, nullable=False),
                _field("value", value_type, nullable=contains_null),
            )
        case StructType(fields):
            return pa.struct([_to_arrow_field(item, field_ids) for item in fields])
        case PrimitiveType(name):
            if name.startswith(("char(", "varchar(", "string collate")):
                return pa.string()
            known = _PRIMITIVES.get(name)
            if known is None:
                raise SchemaError(f"values of type {name!r} cannot be read by lazydelta")
            return known


def to_arrow_schema(schema: StructType, *, field_ids: bool = False) -> pa.Schema:
    """Return the Arrow schema of a table's rows.

    Args:
        schema: The table's schema, logical or physical.
        field_ids: Whether to carry the column-mapping ids as `PARQUET:field_id`, which Parquet
            readers and writers understand.
    """
    return pa.schema([_to_arrow_field(item, field_ids) for item in schema])


def _to_arrow_field(item: StructField, field_ids: bool) -> pa.Field:
    try:
        kind = to_arrow_type(item.type, field_ids=field_ids)
    except SchemaError as error:
        raise SchemaError(f"column {item.name!r}: {error.reason}", error.where) from None
    field_id = item.metadata.get(_FIELD_ID) if field_ids else None
    metadata = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    return _field(item.name, kind, nullable=item.nullable, metadata=metadata)


def _field(
    name: str, kind: pa.DataType, *, nullable: bool, metadata: dict[str, str] | None = None
) -> pa.Field:
    """Return a field; void may be null, even where Spark (of `array()`) says that it is not."""
    return pa.field(name, kind, nullable or pa.types.is_null(kind), metadata)
