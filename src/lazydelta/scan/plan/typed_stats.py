"""Typed statistics of checkpoints as columns of one type, whatever the writer made of them.

A checkpoint may repeat `stats` and `partitionValues` as columns (`stats_parsed`,
`partitionValues_parsed`). Their names are taken from a footer and their types from the table's
schema, since Parquet does not tell a time zone from none. Pure: types in, types out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as kinds

from lazydelta.schema import DecimalType, PrimitiveType, StructType, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["misfits", "typed_fields"]

STATS, PARTITION_VALUES = "stats_parsed", "partitionValues_parsed"
_VALUES = ("minValues", "maxValues")
_WITHOUT_ORDER = ("void", "null", "variant")


def typed_fields(adds: pa.DataType, columns: StructType) -> list[pa.Field]:
    """Return the typed columns that a checkpoint offers, in types of the table's schema.

    Args:
        adds: The type of `add` in one of its files.
        columns: The table's schema, under physical names.
    """
    found = []
    at = adds.get_field_index(STATS)
    if at >= 0 and kinds.is_struct(adds.field(at).type):
        found.append(pa.field(STATS, _stats(adds.field(at).type, columns)))
    at = adds.get_field_index(PARTITION_VALUES)
    if at >= 0 and kinds.is_struct(adds.field(at).type):
        found.append(pa.field(PARTITION_VALUES, _values(adds.field(at).type, columns)))
    return [field for field in found if field.type.num_fields]


def misfits(adds: pa.DataType, wanted: pa.Schema) -> set[str]:
    """Return which typed columns of a file cannot be had in the wanted types.

    Such a file is one of another writer; its text tells the same, and where there is none a
    missing statistic keeps the file.
    """
    return {
        field.name
        for field in wanted
        if field.name in (STATS, PARTITION_VALUES)
        and (at := adds.get_field_index(field.name)) >= 0
        and not _fits(adds.field(at).type, field.type)
    }


def _stats(found: pa.StructType, columns: StructType) -> pa.StructType:
    fields = []
    for field in found:
        if field.name == "numRecords" and kinds.is_integer(field.type):
            fields.append(pa.field(field.name, pa.int64()))
        elif field.name == "tightBounds" and kinds.is_boolean(field.type):
            fields.append(field)
        elif field.name in _VALUES and kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _values(field.type, columns)))
        elif field.name == "nullCount" and kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _counts(field.type)))
    return _struct(fields)


def _values(found: pa.StructType, columns: StructType) -> pa.StructType:
    known = {column.name: column.type for column in columns.fields}
    fields = []
    for field in found:
        kind = known.get(field.name)
        if isinstance(kind, StructType) and kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _values(field.type, kind)))
        elif isinstance(kind, PrimitiveType | DecimalType) and str(kind) not in _WITHOUT_ORDER:
            typed = to_arrow_type(kind)
            if _fits(field.type, typed):
                fields.append(pa.field(field.name, typed))
    return _struct(fields)


def _counts(found: pa.StructType) -> pa.StructType:
    fields = []
    for field in found:
        if kinds.is_struct(field.type):
            fields.append(pa.field(field.name, _counts(field.type)))
        elif kinds.is_integer(field.type):
            fields.append(pa.field(field.name, pa.int64()))
    return _struct(fields)


def _struct(fields: list[pa.Field]) -> pa.StructType:
    """Return a struct of the fields that hold anything."""
    return pa.struct([f for f in fields if not kinds.is_struct(f.type) or f.type.num_fields])


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can be cast to the other without a failure."""
    if kinds.is_struct(wanted):
        return kinds.is_struct(found) and all(
            (at := found.get_field_index(field.name)) < 0 or _fits(found.field(at).type, field.type)
            for field in wanted
        )
    if found == wanted:
        return True
    is_alike: list[Callable[[pa.DataType], bool]] = [kinds.is_timestamp, kinds.is_string]
    if any(alike(found) and alike(wanted) for alike in is_alike):
        return True
    for narrower in (kinds.is_signed_integer, kinds.is_floating):
        if narrower(found) and narrower(wanted):
            return bool(found.bit_width <= wanted.bit_width)
    return False
