"""Two schemas as one: the table's, with what the rows bring in addition. Pure.

Merging only ever adds: new fields come last and take nulls, at every level; nothing is dropped,
renamed, narrowed or reordered. A type changes only from void, or to a wider one where the table
allows that. Where two types do not go together the table's stays, and it is the caller's business
whether the rows fit it.
"""

from __future__ import annotations

from dataclasses import replace

from lazydelta.schema.literals import INTEGER_RANGES
from lazydelta.schema.type_widening import is_wider, with_type_change
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

__all__ = ["merge_schemas", "nullable_type"]

_VOID = PrimitiveType("void")
_Change = tuple[DataType, DataType, tuple[str, ...]]
"""From a type, to a type, and where below the nearest field of a struct."""


def merge_schemas(table: StructType, given: StructType, *, widen: bool) -> StructType:
    """Return the table's schema with what rows of another have in addition.

    >>> a = StructType((StructField("id", PrimitiveType("integer"), nullable=False),))
    >>> b = StructType((StructField("ID", PrimitiveType("long")), StructField("x", _VOID)))
    >>> print(merge_schemas(a, b, widen=True))
    struct<id: long not null, x: void>

    Args:
        table: The table's schema; returned itself if nothing is new.
        given: The schema of the rows.
        widen: Whether types may become wider (`delta.enableTypeWidening`). The change is written
            down on the field, as the protocol asks.
    """
    merged = _Merge(widen).struct(table, given)
    return table if merged == table else merged


def nullable_type(kind: DataType) -> DataType:
    """Return a type that takes nulls at every place where it may."""
    match kind:
        case StructType(fields):
            return StructType(tuple(_nullable(part) for part in fields))
        case ArrayType(element):
            return ArrayType(nullable_type(element))
        case MapType(key, value):
            return MapType(key, nullable_type(value))
        case _:
            return kind


def _nullable(part: StructField) -> StructField:
    return StructField(part.name, nullable_type(part.type), nullable=True, metadata=part.metadata)


class _Merge:
    def __init__(self, widen: bool) -> None:
        self.widen = widen

    def struct(self, table: StructType, given: StructType) -> StructType:
        fields = {part.name: part for part in table}
        for part in given:
            known = table.get(part.name)
            if known is None:
                fields[part.name] = _nullable(part)
            else:
                fields[known.name] = self.field(fields[known.name], part)
        return StructType(tuple(fields.values()))

    def field(self, known: StructField, given: StructField) -> StructField:
        changes: list[_Change] = []
        merged = replace(known, type=self.type(known.type, given.type, (), changes))
        for old, new, inside in changes:
            merged = with_type_change(merged, old, new, inside)
        return merged

    def type(
        self, known: DataType, given: DataType, inside: tuple[str, ...], changes: list[_Change]
    ) -> DataType:
        """Merge two types; changes of what is no field of its own are noted for the one above."""
        match known, given:
            case StructType(), StructType():
                return self.struct(known, given)
            case ArrayType(element, contains_null), ArrayType(other):
                merged = self.type(element, other, (*inside, "element"), changes)
                return ArrayType(merged, contains_null)
            case MapType(key, value, contains_null), MapType(other_key, other_value):
                merged_key = self.type(key, other_key, (*inside, "key"), changes)
                merged = self.type(value, other_value, (*inside, "value"), changes)
                return MapType(merged_key, merged, contains_null)
        if known == _VOID:
            return nullable_type(given)
        if self.widen and _becomes_wider(known, given):
            changes.append((known, given, inside))
            return given
        return known


def _becomes_wider(known: DataType, given: DataType) -> bool:
    """Whether rows may widen a type unasked: never from whole numbers to ones with a fraction."""
    loses_wholeness = str(known) in INTEGER_RANGES and (
        isinstance(given, DecimalType) or str(given) not in INTEGER_RANGES
    )
    return is_wider(known, given) and not loses_wholeness
