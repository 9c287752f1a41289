"""Adds as a table: the fields a scan asks for, in one schema wherever they come from.

A commit gives them as JSON wrote them, a checkpoint as its writer's Parquet schema nests them (with
fewer fields, more fields, or other widths); above here they look alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta.spec import ADD

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ALL_FIELDS", "PLAN_FIELDS", "adds_schema", "conformed", "from_commit", "leaves_of"]

PLAN_FIELDS = ("path", "size", "modificationTime", "partitionValues", "deletionVector")
"""What an engine needs to read a file."""

ALL_FIELDS = (
    *PLAN_FIELDS,
    "stats",
    "tags",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
)
"""All that the log says of a file; `stats` is the heavy one."""

NUM_RECORDS = pa.field("numRecords", pa.int64())
"""From parsed statistics, where a checkpoint has them; `stats` may be missing there."""

_NO_VERSION = np.int64(-1)


def adds_schema(fields: Sequence[str]) -> pa.Schema:
    """Return the schema of adds with these fields, and the version of the commit they are from."""
    extra = [NUM_RECORDS] if "stats" in fields else []
    return pa.schema([*(ADD.field(name) for name in fields), *extra, ("version", pa.int64())])


def leaves_of(fields: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return which leaf columns of a checkpoint hold these fields of its adds."""
    wanted = set(fields)
    found = [name for name in columns if name.startswith("add.") and name.split(".")[1] in wanted]
    if "stats" in wanted and "add.stats_parsed.numRecords" in columns:
        found.append("add.stats_parsed.numRecords")
    return found


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


def from_checkpoint(add: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return adds of a checkpoint, whose fields are the columns of `add`, in the given schema."""
    arrays = []
    for field in schema:
        index = add.schema.get_field_index(field.name)
        if index >= 0:
            arrays.append(conformed(add.column(index), field.type))
        elif field.name == NUM_RECORDS.name and "stats_parsed" in add.schema.names:
            parsed = add.column("stats_parsed")
            arrays.append(conformed(parsed.flatten()[0], field.type))
        else:
            arrays.append(pa.nulls(add.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
