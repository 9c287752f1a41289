"""Add actions as Arrow batches with one schema, whether they come from commits or checkpoints.

Checkpoint writers differ: their Parquet schemas have fewer fields, more fields or other integer
widths. `project_adds` removes these differences.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy
from lazydelta.formats import num_records
from lazydelta.protocol.schemas import ADD
from lazydelta.scan.plan import tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

__all__ = [
    "ALL_FIELDS",
    "PLAN_FIELDS",
    "add_leaf_columns",
    "adds_schema",
    "conformed",
    "nulls",
    "project_adds",
    "take_adds",
]

PLAN_FIELDS = ("path", "size", "modificationTime", "partitionValues", "deletionVector")
"""Fields that an engine needs to read a file."""

ALL_FIELDS = (
    *PLAN_FIELDS,
    "stats",
    "tags",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
    "numRecords",
)
"""All fields of an add action; `stats` is most of the bytes."""

_NUM_RECORDS = pa.field("numRecords", pa.int64())
"""Not a field of the log: taken from `stats_parsed` or `stats`."""
_PARSED_NUM_RECORDS = "add.stats_parsed.numRecords"


def adds_schema(fields: Sequence[str]) -> pa.Schema:
    """Return the schema of adds with these fields and the version of their commit."""
    by_name = {field.name: field for field in (*ADD, _NUM_RECORDS)}
    return pa.schema([*(by_name[name] for name in fields), ("version", pa.int64())])


def add_leaf_columns(fields: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the leaf columns of a checkpoint that hold these fields of its adds."""
    requested = set(fields)
    if "numRecords" in requested and _PARSED_NUM_RECORDS not in columns:
        requested.add("stats")
    leaves = [
        name for name in columns if name.startswith("add.") and name.split(".")[1] in requested
    ]
    if "numRecords" in requested and _PARSED_NUM_RECORDS in columns:
        leaves.append(_PARSED_NUM_RECORDS)
    return leaves


def num_records_column(add: pa.RecordBatch) -> pa.Array:
    """Return the row count of each file: from `stats_parsed` if it was read, else from `stats`."""
    names = add.schema.names
    parsed = None
    if "stats_parsed" in names:
        parsed = conformed(pc.struct_field(add.column("stats_parsed"), "numRecords"), pa.int64())
    if "stats" not in names or (parsed is not None and parsed.null_count == 0):
        return pa.nulls(add.num_rows, pa.int64()) if parsed is None else parsed
    from_json = num_records(add.column("stats"))
    return from_json if parsed is None else pc.coalesce(parsed, from_json)


def take_adds(
    add: pa.StructArray, rows: np.ndarray, versions: np.ndarray, schema: pa.Schema
) -> pa.RecordBatch:
    """Return rows of the `add` column of a commit; fields that it lacks are null."""
    selected = add.take(from_numpy(rows))
    arrays = [
        selected.field(name)
        if selected.type.get_field_index(name) >= 0
        else pa.nulls(len(rows), kind)
        for name, kind in zip(schema.names[:-1], schema.types[:-1], strict=True)
    ]
    return pa.RecordBatch.from_arrays([*arrays, from_numpy(versions[rows])], schema=schema)


def project_adds(add: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return adds in another schema; columns that `add` lacks are null."""
    arrays = []
    for field in schema:
        index = add.schema.get_field_index(field.name)
        if index >= 0:
            arrays.append(conformed(add.column(index), field.type))
        elif field.name == "numRecords":
            arrays.append(num_records_column(add))
        else:
            arrays.append(nulls(add.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return an array of nulls; large ones share their memory."""
    is_shared = tuning.SHARED_NULLS_MIN < count <= tuning.SHARED_NULLS_MAX
    return _shared_nulls(kind).slice(0, count) if is_shared else pa.nulls(count, kind)


@lru_cache
def _shared_nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(tuning.SHARED_NULLS_MAX, kind)


def conformed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to an equivalent type; struct fields that it lacks are null."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        children = [
            conformed(array.field(index), field.type)
            if (index := array.type.get_field_index(field.name)) >= 0
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    return array.cast(kind)
