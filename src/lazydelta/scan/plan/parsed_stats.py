"""Arrow types of the parsed statistics of checkpoints, equal for all writers.

A checkpoint may have `stats` and `partitionValues` also as typed columns (`stats_parsed`,
`partitionValues_parsed`). Their names come from a footer and their types from the table's schema,
because types in the footer do not reliably distinguish `timestamp` and `timestamp_ntz`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as kinds

from lazydelta.schema import DecimalType, PrimitiveType, StructType, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["incompatible_columns", "parsed_fields"]

STATS, PARTITION_VALUES = "stats_parsed", "partitionValues_parsed"
_BOUNDS = ("minValues", "maxValues")
_UNORDERED_TYPES = ("void", "null", "variant")


def parsed_fields(adds: pa.DataType, columns: StructType) -> list[pa.Field]:
    """Return the parsed columns of a checkpoint, in the types of the table's schema.

    Args:
        adds: The type of `add` in one of its files.
        columns: The table's schema, with physical names.
    """
    parsed = []
    index = adds.get_field_index(STATS)
    if index >= 0 and kinds.is_struct(adds.field(index).type):
        parsed.append(pa.field(STATS, _stats_type(adds.field(index).type, columns)))
    index = adds.get_field_index(PARTITION_VALUES)
    if index >= 0 and kinds.is_struct(adds.field(index).type):
        parsed.append(pa.field(PARTITION_VALUES, _values_type(adds.field(index).type, columns)))
    return [field for field in parsed if field.type.num_fields]


def incompatible_columns(adds: pa.DataType, schema: pa.Schema) -> set[str]:
    """Return the parsed columns of a file that cannot be cast to the types of `schema`.

    Pruning then uses the JSON `stats` of the file; without them its adds are kept.
    """
    return {
        field.name
        for field in schema
        if field.name in (STATS, PARTITION_VALUES)
        and (index := adds.get_field_index(field.name)) >= 0
        and not _can_cast(adds.field(index).type, field.type)
    }


def _stats_type(stats: pa.StructType, columns: StructType) -> pa.StructType:
    fields = []
    for field in stats:
        if field.name == "numRecords" and kinds.is_integer(field.type):
            fields.append(pa.field(field.name, pa.int64()))
        elif field.name == "tightBounds" and kinds.is_boolean(field.type):
            fields.append(field)
        elif field.name in _BOUNDS and kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _values_type(field.type, columns)))
        elif field.name == "nullCount" and kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _null_counts_type(field.type)))
    return _non_empty_struct(fields)


def _values_type(values: pa.StructType, columns: StructType) -> pa.StructType:
    column_types = {column.name: column.type for column in columns.fields}
    fields = []
    for field in values:
        kind = column_types.get(field.name)
        if isinstance(kind, StructType) and kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _values_type(field.type, kind)))
        elif isinstance(kind, PrimitiveType | DecimalType) and str(kind) not in _UNORDERED_TYPES:
            arrow_type = to_arrow_type(kind)
            if _can_cast(field.type, arrow_type):
                fields.append(pa.field(field.name, arrow_type))
    return _non_empty_struct(fields)


def _null_counts_type(counts: pa.StructType) -> pa.StructType:
    fields = []
    for field in counts:
        if kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _null_counts_type(field.type)))
        elif kinds.is_integer(field.type):
            fields.append(pa.field(field.name, pa.int64()))
    return _non_empty_struct(fields)


def _non_empty_struct(fields: list[pa.Field]) -> pa.StructType:
    """Return a struct type without empty struct fields."""
    return pa.struct([f for f in fields if not kinds.is_struct(f.type) or f.type.num_fields])


def _can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of a type can be cast to another."""
    if kinds.is_struct(target):
        return kinds.is_struct(source) and all(
            (index := source.get_field_index(field.name)) < 0
            or _can_cast(source.field(index).type, field.type)
            for field in target
        )
    if source == target:
        return True
    families: list[Callable[[pa.DataType], bool]] = [kinds.is_timestamp, kinds.is_string]
    if any(in_family(source) and in_family(target) for in_family in families):
        return True
    for is_numeric in (kinds.is_signed_integer, kinds.is_floating):
        if is_numeric(source) and is_numeric(target):
            return bool(source.bit_width <= target.bit_width)
    return False
