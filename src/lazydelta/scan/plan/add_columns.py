"""Adds as a table: the fields a scan asks for, in one schema wherever they come from.

A commit gives them as JSON wrote them, a checkpoint as its writer's Parquet schema nests them (with
fewer fields, more fields, or other widths); above here they look alike.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy
from lazydelta.formats import num_records
from lazydelta.protocol.schemas import ADD

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

__all__ = [
    "ALL_FIELDS",
    "PLAN_FIELDS",
    "adds_schema",
    "conformed",
    "from_commit",
    "leaves_of",
    "nulls",
    "projected",
]

PLAN_FIELDS = ("path", "size", "modificationTime", "partitionValues", "deletionVector")
"""What an engine needs to read a file."""

ALL_FIELDS = (
    *PLAN_FIELDS,
    "stats",
    "tags",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
    "numRecords",
)
"""All that the log says of a file; `stats` is the heavy one."""

_NUM_RECORDS = pa.field("numRecords", pa.int64())
"""Not a field of the log but the one statistic that everybody wants, wherever it is written."""
_FEW, _MANY = 1 << 12, 1 << 16
_TYPED_NUM_RECORDS = "add.stats_parsed.numRecords"


def adds_schema(fields: Sequence[str]) -> pa.Schema:
    """Return the schema of adds with these fields, and the version of the commit they are from."""
    known = {field.name: field for field in (*ADD, _NUM_RECORDS)}
    return pa.schema([*(known[name] for name in fields), ("version", pa.int64())])


def leaves_of(fields: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return which leaf columns of a checkpoint hold these fields of its adds."""
    wanted = set(fields)
    if "numRecords" in wanted and _TYPED_NUM_RECORDS not in columns:
        wanted.add("stats")
    found = [name for name in columns if name.startswith("add.") and name.split(".")[1] in wanted]
    if "numRecords" in wanted and _TYPED_NUM_RECORDS in columns:
        found.append(_TYPED_NUM_RECORDS)
    return found


def records_of(add: pa.RecordBatch) -> pa.Array:
    """Return how many rows each file has: typed where that was read, else from the JSON text."""
    names = add.schema.names
    typed = None
    if "stats_parsed" in names:
        typed = conformed(pc.struct_field(add.column("stats_parsed"), "numRecords"), pa.int64())
    if "stats" not in names or (typed is not None and typed.null_count == 0):
        return pa.nulls(add.num_rows, pa.int64()) if typed is None else typed
    told = num_records(add.column("stats"))
    return told if typed is None else pc.coalesce(typed, told)


def from_commit(
    add: pa.StructArray, rows: np.ndarray, versions: np.ndarray, schema: pa.Schema
) -> pa.RecordBatch:
    """Return the chosen rows of the `add` column of a commit."""
    taken = add.take(from_numpy(rows))
    arrays = [
        taken.field(name) if taken.type.get_field_index(name) >= 0 else pa.nulls(len(rows), kind)
        for name, kind in zip(schema.names[:-1], schema.types[:-1], strict=True)
    ]
    return pa.RecordBatch.from_arrays([*arrays, from_numpy(versions[rows])], schema=schema)


def projected(add: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return adds, whose fields are the columns of `add`, in the given schema; others are null."""
    arrays = []
    for field in schema:
        index = add.schema.get_field_index(field.name)
        if index >= 0:
            arrays.append(conformed(add.column(index), field.type))
        elif field.name == "numRecords":
            arrays.append(records_of(add))
        else:
            arrays.append(nulls(add.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return nulls; the same memory serves every large batch."""
    is_large = _FEW < count <= _MANY
    return _many_nulls(kind).slice(0, count) if is_large else pa.nulls(count, kind)


@lru_cache
def _many_nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(_MANY, kind)


def conformed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the array in another type of the same meaning; missing struct fields are null."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        inner = [
            conformed(array.field(index), field.type)
            if (index := array.type.get_field_index(field.name)) >= 0
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=array.is_null())
    return array.cast(kind)
