"""Delta data types, named as in the protocol, and the Arrow types in which rows are returned.

An unknown type name is a valid `PrimitiveType`; only its conversion to Arrow fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta._html import schema_html
from lazydelta.errors import ColumnNotFoundError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "ArrayType",
    "DataType",
    "DecimalType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
    "format_path",
    "to_arrow_schema",
    "to_arrow_type",
]

_COLUMN_ID = "delta.columnMapping.id"
_ARROW_PRIMITIVES = {
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


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A primitive type, by its name in the schema: `long`, `string`, `timestamp_ntz`..."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal of at most `precision` digits, `scale` of them after the decimal point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of `element` values."""

    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from `key` to `value`; keys are never null."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a struct; unknown `metadata` is preserved."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class StructType:
    """An ordered list of fields; also the schema of a table."""

    fields: tuple[StructField, ...]
    _by_name: dict[str, list[StructField]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Fields by lower-case name, filled by the first lookup: tables may have 10,000 columns."""

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"

    _repr_html_ = schema_html

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level fields."""
        return tuple(f.name for f in self.fields)

    def get(self, name: str) -> StructField | None:
        """Return the field of that name: the exact match, else the only case-insensitive one."""
        if not self._by_name:
            by_name: dict[str, list[StructField]] = {}
            for child in self.fields:
                by_name.setdefault(child.name.lower(), []).append(child)
            self._by_name.update(by_name)  # at once, because of lookups in other threads
        matches = self._by_name.get(name.lower(), [])
        exact = [f for f in matches if f.name == name]
        return exact[0] if exact else matches[0] if len(matches) == 1 else None

    def find(self, path: Sequence[str], *, prefix: Sequence[str] = ()) -> tuple[StructField, ...]:
        """Return the fields along `path`, outermost first.

        Args:
            path: Names of the fields.
            prefix: The path of this struct in its schema, for the error.

        Raises:
            ColumnNotFoundError: A name of the path does not exist; the message suggests others.
        """
        fields: list[StructField] = []
        parent: DataType = self
        for depth, name in enumerate(path):
            existing = parent.names if isinstance(parent, StructType) else ()
            child = parent.get(name) if isinstance(parent, StructType) else None
            if child is None:
                raise _not_found((*prefix, *path), existing, len(prefix) + depth)
            fields.append(child)
            parent = child.type
        return tuple(fields)

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema of rows with this schema.

        Raises:
            SchemaError: A column has a type that lazydelta cannot read.
        """
        return to_arrow_schema(self)

    def leaves(self, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], DataType]]:
        """Yield the path and type of every field that is not a struct, in schema order."""
        for child in self.fields:
            path = (*prefix, child.name)
            if isinstance(child.type, StructType):
                yield from child.type.leaves(path)
            else:
                yield path, child.type

    def all_fields(
        self, prefix: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], StructField]]:
        """Yield every field at any depth with its path, parents first.

        List elements, map keys and map values appear in paths as `element`, `key` and `value`.
        """
        for child in self.fields:
            path = (*prefix, child.name)
            yield path, child
            yield from _nested_fields(child.type, path)


DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType


def format_path(path: Sequence[str]) -> str:
    """Return a path in SQL notation, with names that are no identifiers in backticks.

    >>> format_path(("a", "b c"))
    'a.`b c`'
    """
    return ".".join(p if p.isidentifier() else f"`{p.replace('`', '``')}`" for p in path)


def to_arrow_type(kind: DataType, *, field_ids: bool = False) -> pa.DataType:
    """Return the Arrow type of a Delta type.

    >>> to_arrow_type(PrimitiveType("timestamp"))
    TimestampType(timestamp[us, tz=UTC])

    Raises:
        SchemaError: The type is unknown.
    """
    match kind:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, contains_null):
            inner = to_arrow_type(element, field_ids=field_ids)
            return pa.list_(_arrow_field("element", inner, nullable=contains_null))
        case MapType(key, value, contains_null):
            key_type = to_arrow_type(key, field_ids=field_ids)
            if pa.types.is_null(key_type):
                raise SchemaError(f"{kind} is invalid: map keys are never null")
            value_type = to_arrow_type(value, field_ids=field_ids)
            return pa.map_(
                pa.field("key", key_type, nullable=False),
                _arrow_field("value", value_type, nullable=contains_null),
            )
        case StructType(fields):
            return pa.struct([_to_arrow_field(child, field_ids) for child in fields])
        case PrimitiveType(name):
            if name.startswith(("char(", "varchar(", "string collate")):
                return pa.string()
            arrow = _ARROW_PRIMITIVES.get(name)
            if arrow is None:
                raise SchemaError(f"lazydelta cannot read values of type {name!r}")
            return arrow


def to_arrow_schema(schema: StructType, *, field_ids: bool = False) -> pa.Schema:
    """Return the Arrow schema of a table's rows.

    Args:
        schema: The table's schema, logical or physical.
        field_ids: Whether to add the column-mapping ids as `PARQUET:field_id` metadata.
    """
    return pa.schema([_to_arrow_field(child, field_ids) for child in schema])


def _to_arrow_field(child: StructField, field_ids: bool) -> pa.Field:
    try:
        kind = to_arrow_type(child.type, field_ids=field_ids)
    except SchemaError as error:
        raise SchemaError(f"column {child.name!r}: {error.reason}", error.where) from None
    field_id = child.metadata.get(_COLUMN_ID) if field_ids else None
    metadata = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    return _arrow_field(child.name, kind, nullable=child.nullable, metadata=metadata)


def _arrow_field(
    name: str, kind: pa.DataType, *, nullable: bool, metadata: dict[str, str] | None = None
) -> pa.Field:
    """Return a field; void is always nullable, although Spark declares `array()` otherwise."""
    return pa.field(name, kind, nullable or pa.types.is_null(kind), metadata)


def _nested_fields(
    kind: DataType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match kind:
        case StructType():
            yield from kind.all_fields(path)
        case ArrayType(element):
            yield from _nested_fields(element, (*path, "element"))
        case MapType(key, value):
            yield from _nested_fields(key, (*path, "key"))
            yield from _nested_fields(value, (*path, "value"))


def _not_found(path: Sequence[str], existing: Sequence[str], depth: int) -> ColumnNotFoundError:
    from difflib import get_close_matches  # slow to import

    lowered = {name.lower(): name for name in existing}
    matches = get_close_matches(path[depth].lower(), lowered, n=3, cutoff=0.6)
    similar = [lowered[name] for name in matches]
    hint = f" (did you mean {' or '.join(map(repr, similar))}?)" if similar else ""
    siblings = tuple(format_path((*path[:depth], name)) for name in existing)
    return ColumnNotFoundError(reason=hint, column=format_path(path), existing=siblings)
