"""Merge the schema of incoming rows into a table's schema.

A merge only adds. New fields are appended as nullable, at every level; no field is dropped,
renamed, narrowed or reordered. A type changes only from void, or to a wider one if the table
enables type widening. On incompatible types the table's type wins; the caller checks whether the
rows fit it.
"""

from __future__ import annotations

from dataclasses import replace

from lazydelta.schema.evolution.type_widening import can_widen, with_type_change
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from lazydelta.schema.values.literals import INTEGER_RANGES

__all__ = ["merge_schemas", "nullable_schema"]

_VOID = PrimitiveType("void")
_Change = tuple[DataType, DataType, tuple[str, ...]]
"""Old type, new type, and the path below the nearest struct field."""


def merge_schemas(table: StructType, rows: StructType, *, widen: bool) -> StructType:
    """Return the table's schema with the additions of the rows' schema.

    >>> a = StructType((StructField("id", PrimitiveType("integer"), nullable=False),))
    >>> b = StructType((StructField("ID", PrimitiveType("long")), StructField("x", _VOID)))
    >>> print(merge_schemas(a, b, widen=True))
    struct<id: long not null, x: void>

    Args:
        table: The table's schema; the same object is returned if nothing changes.
        rows: The schema of the rows.
        widen: Whether types may widen (`delta.enableTypeWidening`). The change is recorded in the
            field's metadata, as the protocol requires.
    """
    merged = _Merge(widen).struct(table, rows)
    return table if merged == table else merged


def nullable_schema(schema: StructType) -> StructType:
    """Return the schema with everything nullable except map keys."""
    return StructType(tuple(map(_nullable, schema)))


def _nullable(field: StructField) -> StructField:
    return replace(field, type=_nullable_type(field.type), nullable=True)


def _nullable_type(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return nullable_schema(kind)
        case ArrayType(element):
            return ArrayType(_nullable_type(element))
        case MapType(key, value):
            return MapType(_nullable_type(key), _nullable_type(value))
        case _:
            return kind


class _Merge:
    def __init__(self, widen: bool) -> None:
        self.widen = widen

    def struct(self, table: StructType, rows: StructType) -> StructType:
        fields = {field.name: field for field in table}
        for field in rows:
            existing = table.get(field.name)
            if existing is None:
                fields[field.name] = _nullable(field)
            else:
                fields[existing.name] = self.field(fields[existing.name], field)
        return StructType(tuple(fields.values()))

    def field(self, table: StructField, rows: StructField) -> StructField:
        changes: list[_Change] = []
        merged = replace(table, type=self.type(table.type, rows.type, (), changes))
        for old, new, field_path in changes:
            merged = with_type_change(merged, old, new, field_path)
        return merged

    def type(
        self, table: DataType, rows: DataType, field_path: tuple[str, ...], changes: list[_Change]
    ) -> DataType:
        """Merge two types; append the type changes of the nearest struct field to `changes`."""
        match table, rows:
            case StructType(), StructType():
                return self.struct(table, rows)
            case ArrayType(element, contains_null), ArrayType(other):
                merged = self.type(element, other, (*field_path, "element"), changes)
                return ArrayType(merged, contains_null)
            case MapType(key, value, contains_null), MapType(other_key, other_value):
                merged_key = self.type(key, other_key, (*field_path, "key"), changes)
                merged = self.type(value, other_value, (*field_path, "value"), changes)
                return MapType(merged_key, merged, contains_null)
        if table == _VOID:
            return _nullable_type(rows)
        if self.widen and _widens_implicitly(table, rows):
            changes.append((table, rows, field_path))
            return rows
        return table


def _widens_implicitly(old: DataType, new: DataType) -> bool:
    """Whether a write may widen the type: never from an integer to a decimal or double."""
    leaves_integers = str(old) in INTEGER_RANGES and (
        isinstance(new, DecimalType) or str(new) not in INTEGER_RANGES
    )
    return can_widen(old, new) and not leaves_integers
