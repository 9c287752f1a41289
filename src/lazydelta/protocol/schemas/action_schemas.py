"""Arrow types of the file actions, which are never Python objects in bulk."""

from __future__ import annotations

import pyarrow as pa

__all__ = [
    "ADD",
    "CHANGE_COLUMNS",
    "CHANGE_FILE",
    "DELETION_VECTOR",
    "REMOVE",
    "REMOVE_ACTION",
    "STRING_MAP",
]

STRING_MAP = pa.map_(pa.string(), pa.string())

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
"""An `add` of a commit; checkpoints may have more fields (`stats_parsed`) or fewer."""

REMOVE = pa.struct([("path", pa.string()), ("deletionVector", DELETION_VECTOR)])
"""The fields of a `remove` that a reader needs: the key of the logical file."""

REMOVE_ACTION = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
"""A `remove` with all its fields."""

CHANGE_FILE = pa.struct(
    [ADD.field(name) for name in ("path", "partitionValues", "size", "dataChange")]
)
"""A `cdc` action: a file with the rows that the commit changed."""

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""Columns of the change data feed beyond the table's; change data files have the first one."""
