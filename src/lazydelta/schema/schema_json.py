"""Parse and serialize the `schemaString` of a `metaData` action.

The JSON is untrusted: structure, names, size and depth are validated here, once. Unknown type
names are preserved, so that the files of a table can be listed although its rows cannot be read.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from lazydelta.errors import SchemaError
from lazydelta.schema import tuning
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

__all__ = ["parse_schema", "parse_type", "schema_to_json"]


_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,2})\s*,\s*(-?\d{1,2})\s*\))?")


def parse_schema(schema_string: str, *, where: str) -> StructType:
    """Parse a `schemaString`.

    >>> schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false}]}'
    >>> print(parse_schema(schema, where="trips"))
    struct<id: long not null>

    Args:
        schema_string: The JSON string.
        where: The table that the schema belongs to; named in errors.

    Raises:
        SchemaError: It is not JSON, not a struct, has colliding names, or exceeds the limits.
    """
    try:
        raw = orjson.loads(schema_string)
    except orjson.JSONDecodeError as error:
        raise SchemaError(f"schemaString is not JSON ({error})", where) from None
    parsed = _Parser(where).type(raw, "", 0)
    if not isinstance(parsed, StructType):
        raise SchemaError(f"a table's schema must be a struct, not {parsed}", where)
    return parsed


def parse_type(raw: Any, *, where: str) -> DataType:
    """Parse the JSON value of a type: a name (`long`, `decimal(10,2)`) or a nested type's object.

    Raises:
        SchemaError: It is not a type.
    """
    return _Parser(where).type(raw, "", 0)


def schema_to_json(schema: StructType) -> str:
    """Serialize a schema as a `schemaString`; unknown metadata is preserved.

    Raises:
        SchemaError: JSON cannot represent a name or a metadata value.
    """
    try:
        return orjson.dumps(_to_raw(schema)).decode()
    except TypeError as error:  # for example, an unpaired surrogate
        raise SchemaError(f"the schema cannot be serialized as JSON: {error}") from None


class _Parser:
    """One parse, with the number of fields read so far."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.field_count = 0

    def fail(self, path: str, reason: str) -> SchemaError:
        return SchemaError(f"{f'field {path}: ' if path else ''}{reason}", self.where)

    def type(self, raw: Any, path: str, depth: int) -> DataType:
        if depth > tuning.MAX_DEPTH:
            raise self.fail(path[:80], f"nested more than {tuning.MAX_DEPTH} deep")
        if isinstance(raw, str):
            return self.primitive(raw, path)
        if not isinstance(raw, dict):
            raise self.fail(path, f"a type must be a name or an object, not {raw!r:.80}")
        kind = raw.get("type")
        try:
            if kind == "struct":
                return self.struct(raw["fields"], path, depth)
            if kind == "array":
                element = self.type(raw["elementType"], f"{path}.element", depth + 1)
                return ArrayType(element, bool(raw.get("containsNull", True)))
            if kind == "map":
                key = self.type(raw["keyType"], f"{path}.key", depth + 1)
                value = self.type(raw["valueType"], f"{path}.value", depth + 1)
                return MapType(key, value, bool(raw.get("valueContainsNull", True)))
        except KeyError as error:
            raise self.fail(path, f"the {kind} type lacks {error}") from None
        if kind == "udt":  # Spark stores a user-defined type as its `sqlType`
            return self.type(raw.get("sqlType"), path, depth + 1)
        if isinstance(kind, str) and len(raw) == 1:  # {"type": "variant"}, seen in the wild
            return self.primitive(kind, path)
        raise self.fail(path, f"unknown type {kind!r:.80}")

    def primitive(self, name: str, path: str) -> DataType:
        if not name.startswith("decimal"):
            return PrimitiveType(name)
        match = _DECIMAL.fullmatch(name)
        if match is None:
            raise self.fail(path, f"{name!r} is not a decimal type")
        precision, scale = int(match[1] or 10), int(match[2] or 0)
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise self.fail(path, f"{name!r} is out of range (38 digits at most)")
        return DecimalType(precision, scale)

    def struct(self, raw: Any, path: str, depth: int) -> StructType:
        if not isinstance(raw, list):
            raise self.fail(path, "the fields of a struct must be a list")
        self.field_count += len(raw)
        if self.field_count > tuning.MAX_FIELDS:
            raise self.fail(path, f"more than {tuning.MAX_FIELDS} fields")
        fields = tuple(self.field(raw_field, path, depth) for raw_field in raw)
        names: dict[str, str] = {}
        for field in fields:
            other = names.get(field.name.lower())
            if other is not None:
                raise self.fail(path, f"{other!r} and {field.name!r} collide (case is ignored)")
            names[field.name.lower()] = field.name
        return StructType(fields)

    def field(self, raw: Any, path: str, depth: int) -> StructField:
        if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or "type" not in raw:
            raise self.fail(path, f"a field needs a name and a type: {raw!r:.80}")
        name = raw["name"]
        field_path = f"{path}.{name}" if path else name
        metadata = raw.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise self.fail(field_path, "metadata must be an object")
        kind = self.type(raw["type"], field_path, depth + 1)
        return StructField(name, kind, bool(raw.get("nullable", True)), metadata)


def _to_raw(kind: DataType) -> Any:
    match kind:
        case StructType(fields):
            return {"type": "struct", "fields": [_field_to_raw(field) for field in fields]}
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _to_raw(element), "containsNull": contains_null}
        case MapType(key, value, contains_null):
            parts = {"keyType": _to_raw(key), "valueType": _to_raw(value)}
            return {"type": "map", **parts, "valueContainsNull": contains_null}
        case _:
            return str(kind)


def _field_to_raw(field: StructField) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": _to_raw(field.type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }
