"""Conversion of Arrow types to Delta types.

Lossless: a type with a value that the Delta type cannot hold is refused. Encodings (dictionary,
view, run-end) do not matter. Field metadata is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.types as pt

from lazydelta._arrow import VARIANT_EXTENSIONS, unencoded_type
from lazydelta.errors import SchemaError
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    to_arrow_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["from_arrow_schema", "from_arrow_type"]

_MAX_PRECISION = 38
_VARIANT = to_arrow_type(PrimitiveType("variant"))
_INTERNAL_KEYS = (
    "ARROW:",
    "PARQUET:",
    "SPARK::",
    "_PL_",
    "delta.columnMapping.",
    "delta.typeChanges",
)
"""Prefixes of field metadata that belongs to an engine, or to the files of another table."""
_IDENTITY = "delta.identity."
_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pt.is_boolean, "boolean"),
    (pt.is_int8, "byte"),
    (pt.is_int16, "short"),
    (pt.is_int32, "integer"),
    (pt.is_int64, "long"),
    # Unsigned integers need the next wider signed type.
    (pt.is_uint8, "short"),
    (pt.is_uint16, "integer"),
    (pt.is_uint32, "long"),
    (pt.is_float16, "float"),
    (pt.is_float32, "float"),
    (pt.is_float64, "double"),
    (pt.is_string, "string"),
    (pt.is_large_string, "string"),
    (pt.is_string_view, "string"),
    (pt.is_binary, "binary"),
    (pt.is_large_binary, "binary"),
    (pt.is_binary_view, "binary"),
    (pt.is_fixed_size_binary, "binary"),
    (pt.is_date, "date"),
    (pt.is_null, "void"),
)
_CURES = (
    (pt.is_time, "cast it to a string or an integer type"),
    (pt.is_duration, "cast it to int64"),
    (pt.is_interval, "split it into integer columns of months, days and nanoseconds"),
    (pt.is_union, "split it into one column per type"),
)


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """Return the Delta schema that holds rows of an Arrow schema.

    >>> schema = pa.schema([("id", pa.uint32()), ("at", pa.timestamp("ns", "CET"))])
    >>> print(from_arrow_schema(schema))
    struct<id: long, at: timestamp>

    Raises:
        SchemaError: A type has no Delta equivalent, or two names differ only in case.
    """
    return StructType(_from_fields(schema, ""))


def from_arrow_type(kind: pa.DataType) -> DataType:
    """Return the Delta type that holds every value of an Arrow type.

    Raises:
        SchemaError: There is none.
    """
    return _from_type(kind, "")


def _from_fields(arrow_fields: Iterable[pa.Field], prefix: str) -> tuple[StructField, ...]:
    fields: dict[str, StructField] = {}
    for field in arrow_fields:
        path = f"{prefix}{field.name}"
        if not field.name:
            raise SchemaError(f"a field of {prefix.rstrip('.') or 'the rows'} has no name")
        other = fields.get(field.name.lower())
        if other is not None:
            raise SchemaError(
                f"column {path!r} and {prefix + other.name!r} collide: names must differ in more "
                "than case; rename one"
            )
        kind, metadata = _from_type(field.type, path), _from_metadata(field)
        fields[field.name.lower()] = StructField(field.name, kind, field.nullable, metadata)
    return tuple(fields.values())


def _from_metadata(field: pa.Field) -> dict[str, Any]:
    """Return the column metadata of an Arrow field: without internal keys and non-UTF-8 values."""
    metadata: dict[str, Any] = {}
    for key, value in (field.metadata or {}).items():
        try:
            name, string = key.decode(), value.decode()
        except UnicodeDecodeError:  # JSON cannot hold it
            continue
        if not name.startswith(_INTERNAL_KEYS):
            metadata[name] = _parse_json(string) if name.startswith(_IDENTITY) else string
    return metadata


def _parse_json(string: str) -> Any:
    """Return the number or boolean that Arrow metadata holds as a string."""
    try:
        return orjson.loads(string)
    except orjson.JSONDecodeError:
        return string


def _from_type(kind: pa.DataType, path: str) -> DataType:
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in VARIANT_EXTENSIONS:
        return PrimitiveType("variant")
    kind = unencoded_type(kind)
    if pt.is_nested(kind):
        return _from_nested(kind, path)
    for is_kind, name in _FROM_ARROW:
        if is_kind(kind):
            return PrimitiveType(name)
    if pt.is_timestamp(kind):
        return PrimitiveType("timestamp_ntz" if kind.tz is None else "timestamp")
    if pt.is_decimal(kind):
        return _from_decimal(kind, path)
    if pt.is_uint64(kind):  # exceeds long
        return DecimalType(20, 0)
    raise _no_delta_type(kind, path)


def _from_nested(kind: pa.DataType, path: str) -> DataType:
    if pt.is_struct(kind):
        # The form in which this engine returns variants; no other writer uses two required
        # binaries of these names.
        if kind == _VARIANT:
            return PrimitiveType("variant")
        return StructType(_from_fields(kind, f"{path}."))
    if pt.is_map(kind):
        key = _from_type(kind.key_type, f"{path}.key")
        value = _from_type(kind.item_type, f"{path}.value")
        return MapType(key, value, kind.item_field.nullable)
    if pt.is_union(kind):
        raise _no_delta_type(kind, path)
    return ArrayType(_from_type(kind.value_type, f"{path}.element"), kind.value_field.nullable)


def _from_decimal(kind: pa.DataType, path: str) -> DecimalType:
    integral_digits, scale = kind.precision - kind.scale, max(kind.scale, 0)
    if integral_digits + scale > _MAX_PRECISION or kind.scale > kind.precision:
        raise SchemaError(
            f"column {path!r}: a {kind} does not fit in the 38 digits of a Delta decimal; cast it "
            "to a narrower one"
        )
    return DecimalType(max(integral_digits + scale, 1), scale)


def _no_delta_type(kind: pa.DataType, path: str) -> SchemaError:
    cure = next((cure for is_kind, cure in _CURES if is_kind(kind)), "cast it to its storage type")
    return SchemaError(f"column {path!r}: Delta has no type for {kind}; {cure}")
