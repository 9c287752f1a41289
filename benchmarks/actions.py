"""Actions of a synthetic log: checkpoint schemas as Spark writes them, rows in them, and JSON.

Knows the form of an action, not which files are in the table; `generate` and `tail` decide that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    from benchmarks.columns import FileColumns
    from benchmarks.spec import TableSpec

__all__ = [
    "add_column",
    "checkpoint_schema",
    "commit_lines",
    "header_rows",
    "metadata",
    "protocol",
    "remove_column",
    "rows_of",
]

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
_BOUNDS = pa.struct(
    [
        ("id", pa.int64()),
        ("value", pa.float64()),
        ("name", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("qty", pa.int32()),
    ]
)
_COUNTS = pa.struct([(name, pa.int64()) for name in ("id", "value", "name", "ts", "qty")])
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _TEXTS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_DOMAIN = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)
_SIDECAR = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", _TEXTS),
    ]
)
_CHECKPOINT_METADATA = pa.struct([("version", pa.int64()), ("tags", _TEXTS)])
_PARTITION_TYPES = {"date": pa.date32(), "region": pa.string()}
_DELETED_AT = 1_767_000_000_000


def _file_fields() -> list[tuple[str, pa.DataType]]:
    return [("partitionValues", _TEXTS), ("size", pa.int64())]


def _row_tracking() -> list[tuple[str, pa.DataType]]:
    return [("baseRowId", pa.int64()), ("defaultRowCommitVersion", pa.int64())]


def _stats_type(spec: TableSpec) -> pa.DataType:
    tight = [("tightBounds", pa.bool_())] if spec.deletion_vectors else []
    bounds = [("minValues", _BOUNDS), ("maxValues", _BOUNDS), ("nullCount", _COUNTS)]
    return pa.struct([("numRecords", pa.int64()), *bounds, *tight])


def _add_type(spec: TableSpec) -> pa.DataType:
    fields = [
        ("path", pa.string()),
        *_file_fields(),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
        *_row_tracking(),
        ("clusteringProvider", pa.string()),
    ]
    if spec.json_stats:
        fields.append(("stats", pa.string()))
    if spec.parsed_stats and spec.partition_levels:
        types = [(name, _PARTITION_TYPES[name]) for name in spec.partition_columns]
        fields.append(("partitionValues_parsed", pa.struct(types)))
    if spec.parsed_stats:
        fields.append(("stats_parsed", _stats_type(spec)))
    return pa.struct(fields)


def _remove_type() -> pa.DataType:
    return pa.struct(
        [
            ("path", pa.string()),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("extendedFileMetadata", pa.bool_()),
            *_file_fields(),
            ("deletionVector", _VECTOR),
            *_row_tracking(),
        ]
    )


def checkpoint_schema(spec: TableSpec, *, sidecar: bool = False) -> pa.Schema:
    """Return the schema of a checkpoint file of `spec`, or of one of its sidecars."""
    files = [("add", _add_type(spec)), ("remove", _remove_type())]
    if sidecar:
        return pa.schema(files)
    manifest = [("sidecar", _SIDECAR), ("checkpointMetadata", _CHECKPOINT_METADATA)]
    table = [("metaData", _METADATA), ("protocol", _PROTOCOL), ("domainMetadata", _DOMAIN)]
    return pa.schema([("txn", _TXN), *files, *table, *(manifest if spec.kind == "v2" else [])])


def rows_of(schema: pa.Schema, name: str, column: pa.Array) -> pa.RecordBatch:
    """Return rows that hold one kind of action: `column` under `name`, nulls elsewhere."""
    nulls = {field.name: pa.nulls(len(column), field.type) for field in schema}
    return pa.record_batch(list((nulls | {name: column}).values()), schema=schema)


def _partition_values(files: FileColumns) -> pa.Array:
    rows, names = len(files.index), files.spec.partition_columns
    offsets = np.arange(rows + 1, dtype=np.int32) * len(names)
    numbers = np.tile(np.arange(len(names), dtype=np.int32), rows)
    keys = pa.DictionaryArray.from_arrays(numbers, pa.array(names, pa.string())).cast(pa.string())
    columns = files.partition_text()
    # file by file: the values of one column after those of the other, then in the order of rows
    values = pa.concat_arrays([pa.array([], pa.string()), *columns])
    order = np.arange(rows * len(names)).reshape(len(names), rows).T.ravel()
    return pa.MapArray.from_arrays(offsets, keys, values.take(pa.array(order)))


def _vectors(files: FileColumns, has: npt.NDArray[np.bool_], salt: int) -> pa.Array:
    rows = len(files.index)
    if not has.any():
        return pa.nulls(rows, _VECTOR)
    kind = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["u"]).cast(pa.string())
    columns = [
        kind,
        files.vector_text(salt),
        pa.array(np.ones(rows, np.int32)),
        pa.array(np.full(rows, 40, np.int32)),
        pa.array(1 + files.records % 50),
        pa.nulls(rows, pa.int64()),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(_VECTOR), mask=pa.array(~has))


def _struct_of(of: pa.DataType, rows: int, **columns: pa.Array) -> pa.Array:
    """Return a struct column of type `of`; missing fields are null."""
    if unknown := columns.keys() - {field.name for field in of}:
        raise ValueError(f"no such fields: {sorted(unknown)}")
    filled = [columns.get(field.name, pa.nulls(rows, field.type)) for field in of]
    return pa.StructArray.from_arrays(filled, fields=list(of))


def add_column(
    files: FileColumns,
    *,
    has_vector: npt.NDArray[np.bool_] | None = None,
    salt: int = 0,
    data_change: bool = False,
) -> pa.Array:
    """Return `add` actions of these files, with the columns that the table's checkpoint has.

    Args:
        files: Which files.
        has_vector: Which of them have a deletion vector; default: those that have one from the
            start.
        salt: A different salt gives a different vector of the same file.
        data_change: The field of that name.
    """
    rows, spec = len(files.index), files.spec
    has = files.has_vector if has_vector is None else has_vector
    columns: dict[str, pa.Array] = {
        "path": files.path,
        "partitionValues": _partition_values(files),
        "size": pa.array(files.size),
        "modificationTime": pa.array(files.modified),
        "dataChange": pa.array(np.full(rows, data_change)),
        "deletionVector": _vectors(files, has, salt),
    }
    if spec.json_stats:
        columns["stats"] = files.stats_json(tight=True)
        if has.any():
            wide = files.stats_json(tight=False)
            columns["stats"] = pc.if_else(pa.array(has), wide, columns["stats"])
    if spec.parsed_stats:
        columns["stats_parsed"] = files.stats_parsed(
            pa.array(~has) if spec.deletion_vectors else None
        )
        if spec.partition_levels:
            columns["partitionValues_parsed"] = files.partition_parsed()
    return _struct_of(_add_type(spec), rows, **columns)


def remove_column(
    files: FileColumns, *, has_vector: npt.NDArray[np.bool_] | None = None, salt: int = 0
) -> pa.Array:
    """Return `remove` actions of these files; arguments as those of `add_column`."""
    rows = len(files.index)
    has = files.has_vector if has_vector is None else has_vector
    return _struct_of(
        _remove_type(),
        rows,
        path=files.path,
        deletionTimestamp=pa.array(np.full(rows, _DELETED_AT)),
        dataChange=pa.array(np.ones(rows, bool)),
        extendedFileMetadata=pa.array(np.ones(rows, bool)),
        partitionValues=_partition_values(files),
        size=pa.array(files.size),
        deletionVector=_vectors(files, has, salt),
    )


def protocol(spec: TableSpec) -> dict[str, Any]:
    """Return the `protocol` action for the options."""
    features = [
        name
        for name, is_enabled in (
            ("deletionVectors", spec.deletion_vectors),
            ("v2Checkpoint", spec.kind == "v2"),
        )
        if is_enabled
    ]
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    lists = {"readerFeatures": features, "writerFeatures": features}
    return {"minReaderVersion": 3, "minWriterVersion": 7, **lists}


def metadata(spec: TableSpec) -> dict[str, Any]:
    """Return the `metaData` action."""
    types = {"id": "long", "value": "double", "name": "string", "ts": "timestamp"}
    types |= {"qty": "integer", "date": "date"}
    types |= {"region": "string"} if spec.partition_levels == 2 else {}
    columns = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in types.items()
    ]
    settings = {
        "delta.enableDeletionVectors": spec.deletion_vectors,
        "delta.checkpointPolicy": "v2" if spec.kind == "v2" else False,
        "delta.checkpoint.writeStatsAsStruct": spec.parsed_stats,
    }
    return {
        "id": "7d1a7c52-6a0b-4cf0-8f63-2f4f0f5b8a11",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": spec.partition_columns,
        "configuration": {k: str(v).lower() for k, v in settings.items() if v},
        "createdTime": _DELETED_AT,
    }


def header_rows(
    spec: TableSpec, schema: pa.Schema, more: list[dict[str, Any]] | None = None
) -> pa.RecordBatch:
    """Return the rows of a checkpoint that are not file actions, and `more` such actions."""
    meta = metadata(spec)
    maps = {"configuration": list(meta["configuration"].items())}
    meta |= maps | {"format": {"provider": "parquet", "options": []}}
    txn = {"appId": "benchmarks", "version": 3, "lastUpdated": _DELETED_AT}
    rows = [{"protocol": protocol(spec)}, {"metaData": meta}, {"txn": txn}, *(more or [])]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def commit_lines(name: str, column: pa.Array) -> list[str]:
    """Return one line of a commit for each action in `column`; without nulls and parsed fields."""
    lines = []
    for action in column.to_pylist():
        fields = {
            key: dict(value) if key == "partitionValues" else value
            for key, value in action.items()
            if value is not None and not key.endswith("_parsed")
        }
        if vector := fields.get("deletionVector"):
            fields["deletionVector"] = {k: v for k, v in vector.items() if v is not None}
        lines.append(json.dumps({name: fields}, separators=(",", ":")))
    return lines
