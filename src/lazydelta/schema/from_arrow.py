"""Arrow schema to Delta schema: the columns of a table that can hold such rows.

Lossless by type: an Arrow type with a value that the Delta type cannot hold is refused by name.
Encodings (dictionaries, views, run ends) are dropped. Field metadata is kept. Independent of any
existing table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.types as pt

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["from_arrow_schema", "from_arrow_type", "value_type"]

_MOST_DIGITS = 38
_PRIMITIVES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pt.is_boolean, "boolean"),
    (pt.is_int8, "byte"),
    (pt.is_int16, "short"),
    (pt.is_int32, "integer"),
    (pt.is_int64, "long"),
    # Unsigned numbers need one bit more than the signed type of their size has.
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
    (pt.is_time, "cast it to a string, or to whole numbers"),
    (pt.is_duration, "cast it to int64"),
    (pt.is_interval, "give its months, days and nanoseconds as columns of numbers"),
    (pt.is_union, "give a column for each of its types"),
)
_STORED_EXTENSIONS = ("arrow.json", "arrow.uuid")
"""Extension types whose storage is what they mean."""
_INTERNAL_KEYS = (
    "ARROW:",
    "PARQUET:",
    "SPARK::",
    "_PL_",
    "delta.columnMapping.",
    "delta.typeChanges",
)
"""Field metadata that engines and Arrow keep for themselves."""
_IDENTITY = "delta.identity."
_VARIANT_EXTENSIONS = ("arrow.parquet.variant", "parquet.variant")
_VARIANT = [
    pa.field("metadata", pa.binary(), nullable=False),
    pa.field("value", pa.binary(), nullable=False),
]


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """Return the schema of a table that holds such rows.

    >>> given = pa.schema([("id", pa.uint32()), ("at", pa.timestamp("ns", "CET"))])
    >>> print(from_arrow_schema(given))
    struct<id: long, at: timestamp>

    Raises:
        SchemaError: A type that Delta does not have, or names that collide.
    """
    return StructType(_fields(schema, ""))


def from_arrow_type(kind: pa.DataType) -> DataType:
    """Return the Delta type that holds every value of an Arrow type.

    Raises:
        SchemaError: There is none.
    """
    return _type(kind, "")


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values: without dictionaries, run ends and known extensions."""
    while True:
        if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.BaseExtensionType) and (
            kind.extension_name in (*_STORED_EXTENSIONS, *_VARIANT_EXTENSIONS)
        ):
            kind = kind.storage_type
        else:
            return kind


def _fields(parts: Iterable[pa.Field], above: str) -> tuple[StructField, ...]:
    fields: dict[str, StructField] = {}
    for part in parts:
        path = f"{above}{part.name}"
        if not part.name:
            raise SchemaError(f"a field of {above.rstrip('.') or 'the rows'} has no name")
        other = fields.get(part.name.lower())
        if other is not None:
            raise SchemaError(
                f"column {path!r} and {above + other.name!r} collide: names must differ in more "
                "than case; rename one"
            )
        kind, metadata = _type(part.type, path), _metadata(part)
        fields[part.name.lower()] = StructField(part.name, kind, part.nullable, metadata)
    return tuple(fields.values())


def _metadata(part: pa.Field) -> dict[str, Any]:
    """Return the metadata of an Arrow field that is metadata of a Delta column.

    Ids, physical names and type changes describe the files of another table. What is not UTF-8
    has no place in JSON.
    """
    found: dict[str, Any] = {}
    for key, value in (part.metadata or {}).items():
        try:
            name, given = key.decode(), value.decode()
        except UnicodeDecodeError:
            continue
        if not name.startswith(_INTERNAL_KEYS):
            found[name] = _typed(given) if name.startswith(_IDENTITY) else given
    return found


def _typed(given: str) -> Any:
    """Return a number or a boolean, which Arrow metadata has as a string."""
    try:
        return orjson.loads(given)
    except orjson.JSONDecodeError:
        return given


def _type(kind: pa.DataType, path: str) -> DataType:
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _VARIANT_EXTENSIONS:
        return PrimitiveType("variant")
    kind = value_type(kind)
    if pt.is_nested(kind):
        return _nested(kind, path)
    for is_kind, name in _PRIMITIVES:
        if is_kind(kind):
            return PrimitiveType(name)
    if pt.is_timestamp(kind):
        return PrimitiveType("timestamp_ntz" if kind.tz is None else "timestamp")
    if pt.is_decimal(kind):
        return _decimal(kind, path)
    if pt.is_uint64(kind):  # beyond long, and well within a decimal
        return DecimalType(20, 0)
    raise _refused(kind, path)


def _nested(kind: pa.DataType, path: str) -> DataType:
    if pt.is_struct(kind):
        # As this engine shows variants; no one else makes two binaries that are never null.
        if list(kind) == _VARIANT:
            return PrimitiveType("variant")
        return StructType(_fields(kind, f"{path}."))
    if pt.is_map(kind):
        key, value = _type(kind.key_type, f"{path}.key"), _type(kind.item_type, f"{path}.value")
        return MapType(key, value, kind.item_field.nullable)
    if pt.is_union(kind):
        raise _refused(kind, path)
    return ArrayType(_type(kind.value_type, f"{path}.element"), kind.value_field.nullable)


def _decimal(kind: pa.DataType, path: str) -> DecimalType:
    whole, scale = kind.precision - kind.scale, max(kind.scale, 0)
    if whole + scale > _MOST_DIGITS or kind.scale > kind.precision:
        raise SchemaError(
            f"column {path!r}: a {kind} does not fit in the 38 digits of a Delta decimal; cast it "
            "to a narrower one"
        )
    return DecimalType(max(whole + scale, 1), scale)


def _refused(kind: pa.DataType, path: str) -> SchemaError:
    cure = next((cure for is_kind, cure in _CURES if is_kind(kind)), "cast it to its storage type")
    return SchemaError(f"column {path!r}: Delta has no type for {kind}; {cure}")
