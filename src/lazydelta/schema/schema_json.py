"""A table's schema as the JSON text of its `metaData` action, read and written.

The text is untrusted: shape, names, size and depth are checked here, once. Names that this
engine does not know are kept, so that a table may be listed even where it cannot be read.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

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

__all__ = ["parse_schema", "parse_type", "schema_to_json"]

_MAX_DEPTH = 100
_MAX_FIELDS = 100_000
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,2})\s*,\s*(-?\d{1,2})\s*\))?")


def parse_schema(text: str, *, where: str) -> StructType:
    """Parse a `schemaString`.

    >>> text = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false}]}'
    >>> print(parse_schema(text, where="trips"))
    struct<id: long not null>

    Args:
        text: The JSON text.
        where: What the schema belongs to; named in errors.

    Raises:
        SchemaError: Not JSON, not a struct, names that collide, or too deep or large to be true.
    """
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SchemaError(f"schemaString is not JSON ({error})", where) from None
    parsed = _Reader(where).type(raw, "", 0)
    if not isinstance(parsed, StructType):
        raise SchemaError(f"a table's schema must be a struct, not {parsed}", where)
    return parsed


def parse_type(raw: Any, *, where: str) -> DataType:
    """Return a type as schemas name it: `long`, `decimal(10,2)`, or the object of one with parts.

    Raises:
        SchemaError: There is no such type.
    """
    return _Reader(where).type(raw, "", 0)


def schema_to_json(schema: StructType) -> str:
    """Return the `schemaString` of a schema; unknown metadata is kept.

    Raises:
        SchemaError: A text or a value of its metadata that JSON does not have.
    """
    try:
        return orjson.dumps(_to_raw(schema)).decode()
    except TypeError as error:  # half a surrogate pair, say
        raise SchemaError(f"it cannot be written as JSON: {error}") from None


class _Reader:
    """One parse: carries where it is and how many fields it has met."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.seen = 0

    def fail(self, path: str, reason: str) -> SchemaError:
        return SchemaError(f"{f'field {path}: ' if path else ''}{reason}", self.where)

    def type(self, raw: Any, path: str, depth: int) -> DataType:
        if depth > _MAX_DEPTH:
            raise self.fail(path[:80], f"nested more than {_MAX_DEPTH} deep")
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
        if kind == "udt":  # Spark's user-defined types are stored as the type they are made of
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
        self.seen += len(raw)
        if self.seen > _MAX_FIELDS:
            raise self.fail(path, f"more than {_MAX_FIELDS} fields")
        fields = tuple(self.field(item, path, depth) for item in raw)
        names: dict[str, str] = {}
        for item in fields:
            other = names.get(item.name.lower())
            if other is not None:
                raise self.fail(path, f"{other!r} and {item.name!r} collide (case is ignored)")
            names[item.name.lower()] = item.name
        return StructType(fields)

    def field(self, raw: Any, path: str, depth: int) -> StructField:
        if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or "type" not in raw:
            raise self.fail(path, f"a field needs a name and a type: {raw!r:.80}")
        name = raw["name"]
        here = f"{path}.{name}" if path else name
        metadata = raw.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise self.fail(here, "metadata must be an object")
        kind = self.type(raw["type"], here, depth + 1)
        return StructField(name, kind, bool(raw.get("nullable", True)), metadata)


def _to_raw(kind: DataType) -> Any:
    match kind:
        case StructType(fields):
            return {"type": "struct", "fields": [_field_to_raw(item) for item in fields]}
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _to_raw(element), "containsNull": contains_null}
        case MapType(key, value, contains_null):
            parts = {"keyType": _to_raw(key), "valueType": _to_raw(value)}
            return {"type": "map", **parts, "valueContainsNull": contains_null}
        case _:
            return str(kind)


def _field_to_raw(item: StructField) -> dict[str, Any]:
    return {
        "name": item.name,
        "type": _to_raw(item.type),
        "nullable": item.nullable,
        "metadata": dict(item.metadata),
    }
