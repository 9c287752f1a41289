"""Parquet files of a checkpoint: schema, encoding, and a writer that validates its counts.

Each row group holds one kind of action: first the actions that do not concern files, where readers
look for them, then adds, then tombstones. The counts in a file's footer are validated before the
file is published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.errors import InternalError
from lazydelta.formats import JsonLimits, decode_lines, split_lines
from lazydelta.scan.plan import nulls
from lazydelta.store import open_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.store import Output, Store

__all__ = ["ActionFile", "WrittenFile", "checkpoint_schema", "count_actions"]

_STRINGS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.field("element", pa.string()))

OTHERS = {
    "txn": pa.struct(
        [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _NAMES),
            ("configuration", _STRINGS),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _NAMES),
            ("writerFeatures", _NAMES),
        ]
    ),
    "domainMetadata": pa.struct(
        [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
    ),
}
"""Arrow types of the actions that do not concern files."""

_LIMITS = JsonLimits(line_bytes=1 << 30, depth=256)
# Long strings that no reader compares: their bounds would only fill the footer.
_WITHOUT_BOUNDS = ("add.stats", "metaData.schemaString")
# Every plan reads paths, and zstd halves their size compared with Snappy. Statistics as JSON are
# most of a checkpoint: at level -3 zstd writes them faster than Snappy, and smaller.
_ZSTD = {"add.path": 1, "remove.path": 1, "add.stats": -3}
# Values that rarely repeat, like timestamps: Snappy takes longer than the rest of their encoding
# to save a fifth of their bytes.
_HIGH_CARDINALITY = ("add.size", "add.modificationTime")
_WRITE_BATCH_ROWS = 4096
_REPEATED = (
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.partitionValues_parsed.",
    "add.stats_parsed.nullCount.",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
)
"""Columns that are dictionary-encoded, by the start of their path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A published file of a checkpoint."""

    path: str
    bytes: int
    rows: int
    adds: int
    removes: int
    tags: Mapping[str, str] = field(default_factory=dict)


class ActionFile:
    """A Parquet file of actions that is being written. It appears when it is published.

    Args:
        store: Where the table is.
        path: Of the file.
        shape: The columns of the checkpoint.
        others: Whether the file has actions that do not concern files; sidecars have none.
    """

    def __init__(self, store: Store, path: str, shape: CheckpointShape, *, others: bool) -> None:
        self.path = path
        self.rows = self.adds = self.removes = 0
        self._schema = checkpoint_schema(shape, others=others)
        self._footers: list[pq.FileMetaData] = []
        self._output: Output = open_output(store, path)
        self._writer = pq.ParquetWriter(
            self._output.file,
            self._schema,
            **_options(self._schema),
            metadata_collector=self._footers,
        )

    def append_others(self, actions: Sequence[Mapping[str, Any]]) -> None:
        """Write actions that do not concern files as one row group."""
        lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        plain = pa.schema(list(OTHERS.items()))
        batch = decode_lines(split_lines(lines), plain, unique_keys=(), limits=_LIMITS)
        self._append(dict(zip(OTHERS, batch.columns, strict=True)), batch.num_rows)

    def append(self, kind: Literal["add", "remove"], pieces: Sequence[Columns]) -> None:
        """Write adds or tombstones as one row group; fields that a piece lacks are null."""
        fields = self._schema.field(kind).type
        chunks = [_structs(columns, fields) for columns in pieces]
        rows = sum(map(len, chunks))
        self._append({kind: pa.chunked_array(chunks, fields)}, rows)
        if kind == "add":
            self.adds += rows
        else:
            self.removes += rows

    def _append(self, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int) -> None:
        arrays = [
            columns[item.name] if item.name in columns else nulls(rows, item.type)
            for item in self._schema
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), rows)
        self.rows += rows

    def publish(self, tags: Mapping[str, str] | None = None) -> WrittenFile:
        """Write the footer, validate its counts, and publish the file."""
        self._writer.close()
        size = self._output.file.tell()
        counted, given = count_actions(self._footers[0]), (self.rows, self.adds, self.removes)
        if counted != given:
            self.discard()
            raise InternalError(f"{self.path} has {counted} actions, but {given} were written")
        self._output.publish()
        rows, adds, removes = given
        return WrittenFile(
            path=self.path, bytes=size, rows=rows, adds=adds, removes=removes, tags=tags or {}
        )

    def discard(self) -> None:
        """Remove what was written; nothing is published."""
        self._writer.is_open = False  # else its finalizer writes a footer into a closed file
        self._output.discard()


def count_actions(footer: pq.FileMetaData) -> tuple[int, int, int]:
    """Return the number of rows, adds and removes in a checkpoint file, from its footer."""
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    counts = []
    for column in ("add.path", "remove.path"):
        groups = (footer.row_group(at) for at in range(footer.num_row_groups))
        at = places[column]
        counts.append(sum(g.num_rows - g.column(at).statistics.null_count for g in groups))
    return footer.num_rows, counts[0], counts[1]


def _structs(columns: Columns, kind: pa.StructType) -> pa.StructArray:
    """Return structs of columns; missing fields are null."""
    rows = len(columns["path"])
    arrays = [columns[i.name] if i.name in columns else nulls(rows, i.type) for i in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def checkpoint_schema(shape: CheckpointShape, *, others: bool) -> pa.Schema:
    """Return the schema of a checkpoint file. Sidecars hold file actions only."""
    files = [("add", shape.add), ("remove", shape.remove)]
    return pa.schema([*(OTHERS.items() if others else ()), *files])


def _options(schema: pa.Schema) -> dict[str, Any]:
    leaves = dict(leaf for item in schema for leaf in _leaves_below(item.name, item.type))
    return {
        "compression": {leaf: _codec(leaf, kind) for leaf, kind in leaves.items()},
        "compression_level": {leaf: _ZSTD[leaf] for leaf in leaves if leaf in _ZSTD},
        "use_dictionary": [leaf for leaf in leaves if leaf.startswith(_REPEATED)],
        "write_statistics": [leaf for leaf in leaves if leaf not in _WITHOUT_BOUNDS],
        "write_page_index": True,
        "write_batch_size": _WRITE_BATCH_ROWS,
        "write_page_checksum": True,
        "store_schema": False,
    }


def _codec(leaf: str, kind: pa.DataType) -> str:
    if leaf in _ZSTD:
        return "zstd"
    is_timestamp = pa.types.is_timestamp(kind) and not leaf.startswith(_REPEATED)
    return "none" if is_timestamp or leaf in _HIGH_CARDINALITY else "snappy"


def _leaves_below(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the Parquet paths of the leaf columns, with their types."""
    if pa.types.is_struct(kind):
        for item in kind:
            yield from _leaves_below(f"{name}.{item.name}", item.type)
    elif pa.types.is_map(kind):
        yield f"{name}.key_value.key", kind.key_type
        yield f"{name}.key_value.value", kind.item_type
    elif pa.types.is_list(kind):
        yield f"{name}.list.element", kind.value_type
    else:
        yield name, kind
