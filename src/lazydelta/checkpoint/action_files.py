"""Parquet files of a checkpoint: schema, encoding, and a writer that validates its counts.

Each row group holds one kind of action: first the non-file actions, where readers look for them,
then adds, then removes. The counts in a file's footer are validated before the file is published,
and again from the store after.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta._parallel import start_thread
from lazydelta.checkpoint import tuning
from lazydelta.errors import InternalError, LogCorruptError, StoreError
from lazydelta.formats import JsonLimits, decode_lines, split_lines
from lazydelta.parquet.footer import footer_range, read_footer
from lazydelta.scan.plan import nulls
from lazydelta.store import RangedInput, open_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.checkpoint.checkpoint_schema import CheckpointSchema
    from lazydelta.checkpoint.sort.sorted_runs import Columns
    from lazydelta.store import Store

__all__ = ["ActionFile", "WrittenFile", "action_file_schema", "validate_stored"]

_STRINGS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.field("element", pa.string()))

NON_FILE_ACTIONS = {
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
"""Arrow types of the non-file actions."""

_LIMITS = JsonLimits(line_bytes=tuning.JSON_LINE_BYTES, depth=tuning.JSON_DEPTH)
# Long strings that no reader compares: their bounds would only fill the footer.
_WITHOUT_BOUNDS = ("add.stats", "metaData.schemaString")
# High-cardinality values like timestamps: Snappy takes longer than the rest of their encoding, to
# save a fifth of their bytes.
_UNCOMPRESSED = ("add.size", "add.modificationTime")
_DICTIONARY_ENCODED = (
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.partitionValues_parsed.",
    "add.stats_parsed.nullCount.",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
)
"""Low-cardinality columns, by a prefix of their path."""


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
    """Writes a Parquet file of actions, which becomes visible when it is published.

    Args:
        store: The table's store.
        path: The file's path.
        schema: The schema of the checkpoint.
        has_non_file_actions: Whether the file has non-file actions; sidecars have none.
    """

    def __init__(
        self, store: Store, path: str, schema: CheckpointSchema, *, has_non_file_actions: bool
    ) -> None:
        self.path = path
        self.rows = self.adds = self.removes = 0
        self._schema = action_file_schema(schema, has_non_file_actions=has_non_file_actions)
        self._footers: list[pq.FileMetaData] = []
        self._output = open_output(store, path)
        self._writer = pq.ParquetWriter(
            self._output.file,
            self._schema,
            **_writer_options(self._schema),
            metadata_collector=self._footers,
        )

    def append_non_file_actions(self, actions: Sequence[Mapping[str, Any]]) -> None:
        """Write non-file actions as one row group."""
        lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        schema = pa.schema(list(NON_FILE_ACTIONS.items()))
        batch = decode_lines(split_lines(lines), schema, unique_keys=(), limits=_LIMITS)
        self._append(dict(zip(NON_FILE_ACTIONS, batch.columns, strict=True)), batch.num_rows)

    def append(self, action: Literal["add", "remove"], parts: Sequence[Columns]) -> None:
        """Write adds or removes as one row group; fields that a part omits are null."""
        struct = self._schema.field(action).type
        chunks = [_structs(columns, struct) for columns in parts]
        rows = sum(map(len, chunks))
        self._append({action: pa.chunked_array(chunks, struct)}, rows)
        if action == "add":
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
        stored, expected = _count_actions(self._footers[0]), (self.rows, self.adds, self.removes)
        if stored != expected:
            self.discard()
            raise InternalError(f"{self.path} has {stored} actions, but {expected} were written")
        self._output.publish()
        return WrittenFile(
            path=self.path,
            bytes=size,
            rows=self.rows,
            adds=self.adds,
            removes=self.removes,
            tags=tags or {},
        )

    def discard(self) -> None:
        """Remove what was written; nothing is published."""
        self._writer.is_open = False  # else its finalizer writes a footer into a closed file
        self._output.discard()


def validate_stored(store: Store, written: WrittenFile, version: int) -> None:
    """Compare a published file with what was written; delete it if they differ.

    Raises:
        LogCorruptError: They differ.
    """
    expected = (written.rows, written.adds, written.removes)
    footer = start_thread(lambda: _stored_footer(store, written))
    size = store.head(written.path).size
    try:
        stored = _count_actions(footer.result()) if size == written.bytes else None
    except StoreError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
    else:
        if stored == expected:
            return
        reason = f"it holds {stored} actions in {size} bytes, not {expected} in {written.bytes}"
    store.delete([written.path])
    raise LogCorruptError(store.root, written.path, reason, version)


def _stored_footer(store: Store, written: WrittenFile) -> pq.FileMetaData:
    with closing(RangedInput(store, written.path, written.bytes)) as source:
        source.fetch([footer_range(written.bytes)])
        return read_footer(source.file).metadata


def _count_actions(footer: pq.FileMetaData) -> tuple[int, int, int]:
    """Return the number of rows, adds and removes of a file, from its footer."""
    indices = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    counts = []
    for column in ("add.path", "remove.path"):
        groups = (footer.row_group(group) for group in range(footer.num_row_groups))
        index = indices[column]
        counts.append(sum(g.num_rows - g.column(index).statistics.null_count for g in groups))
    return footer.num_rows, counts[0], counts[1]


def _structs(columns: Columns, struct: pa.StructType) -> pa.StructArray:
    """Return columns as structs; missing fields are null."""
    rows = len(columns["path"])
    arrays = [
        columns[item.name] if item.name in columns else nulls(rows, item.type) for item in struct
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(struct))


def action_file_schema(schema: CheckpointSchema, *, has_non_file_actions: bool) -> pa.Schema:
    """Return the schema of one Parquet file of a checkpoint."""
    file_actions = [("add", schema.add), ("remove", schema.remove)]
    return pa.schema([*(NON_FILE_ACTIONS.items() if has_non_file_actions else ()), *file_actions])


def _writer_options(schema: pa.Schema) -> dict[str, Any]:
    leaves = dict(leaf for item in schema for leaf in _leaf_columns(item.name, item.type))
    return {
        "compression": {leaf: _codec(leaf, kind) for leaf, kind in leaves.items()},
        "compression_level": {
            leaf: level for leaf, level in tuning.ZSTD_LEVELS.items() if leaf in leaves
        },
        "use_dictionary": [leaf for leaf in leaves if leaf.startswith(_DICTIONARY_ENCODED)],
        "write_statistics": [leaf for leaf in leaves if leaf not in _WITHOUT_BOUNDS],
        "write_page_index": True,
        "write_batch_size": tuning.WRITE_BATCH_ROWS,
        "write_page_checksum": True,
        "store_schema": False,
    }


def _codec(leaf: str, kind: pa.DataType) -> str:
    if leaf in tuning.ZSTD_LEVELS:
        return "zstd"
    is_timestamp = pa.types.is_timestamp(kind) and not leaf.startswith(_DICTIONARY_ENCODED)
    return "none" if is_timestamp or leaf in _UNCOMPRESSED else "snappy"


def _leaf_columns(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the Parquet paths of the leaf columns, with their types."""
    if pa.types.is_struct(kind):
        for item in kind:
            yield from _leaf_columns(f"{name}.{item.name}", item.type)
    elif pa.types.is_map(kind):
        yield f"{name}.key_value.key", kind.key_type
        yield f"{name}.key_value.value", kind.item_type
    elif pa.types.is_list(kind):
        yield f"{name}.list.element", kind.value_type
    else:
        yield name, kind
