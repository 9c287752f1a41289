"""Files of a checkpoint: actions in, Parquet out, counted on the way and counted again at the end.

A file is a row of row groups, and each of those has one kind of action: the few that are not about
files first, where every reader looks for them, then adds, then tombstones. What is in a file is
checked against its own footer before the file appears.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.errors import InternalError
from lazydelta.files import JsonLimits, decode_lines, split_lines
from lazydelta.scan import nulls
from lazydelta.store import open_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.store import Output, Store
    from lazydelta.upkeep.checkpoint_shape import CheckpointShape

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
"""The types of the actions that are not about files."""

_LIMITS = JsonLimits(line_bytes=1 << 30, depth=256)
# Long texts that nobody compares, so that their least and greatest would only fill the footer.
_WITHOUT_BOUNDS = ("add.stats", "metaData.schemaString")
# Every plan reads paths: of those zstd makes half of what Snappy would. Texts of statistics are
# most of a checkpoint, and read by those alone who cannot use the typed ones: at this level zstd
# takes less time to write than Snappy, and still makes less of them.
_ZSTD = {"add.path": 1, "remove.path": 1, "add.stats": -3}
_ROWS_AT_ONCE = 4096
"""Rows that the encoder looks at together; a page is as many of these as fill it."""
_REPEATED = (
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.partitionValues_parsed.",
    "add.stats_parsed.nullCount.",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file of a checkpoint that is in its place."""

    path: str
    bytes: int
    rows: int
    adds: int
    removes: int
    tags: Mapping[str, str] = field(default_factory=dict)


class ActionFile:
    """A Parquet file of actions that is being written; it appears when it is published."""

    def __init__(
        self, store: Store, path: str, shape: CheckpointShape, *, others: bool = False
    ) -> None:
        self.path = path
        self._schema = checkpoint_schema(shape, others=others)
        self._counts = {"rows": 0, "add": 0, "remove": 0}
        self._output: Output = open_output(store, path)
        leaves = _leaves(self._schema)
        self._footer: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._output.file,
            self._schema,
            compression={leaf: "zstd" if leaf in _ZSTD else "snappy" for leaf in leaves},
            compression_level={leaf: _ZSTD[leaf] for leaf in leaves if leaf in _ZSTD},
            use_dictionary=[leaf for leaf in leaves if leaf.startswith(_REPEATED)],
            write_statistics=[leaf for leaf in leaves if leaf not in _WITHOUT_BOUNDS],
            write_page_index=True,
            write_batch_size=_ROWS_AT_ONCE,
            write_page_checksum=True,
            store_schema=False,
            metadata_collector=self._footer,
        )

    @property
    def adds(self) -> int:
        """How many adds were written so far."""
        return self._counts["add"]

    def write_others(self, actions: Sequence[Mapping[str, Any]]) -> None:
        """Write actions that are not about files as one row group."""
        lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        plain = pa.schema(list(OTHERS.items()))
        batch = decode_lines(split_lines(lines), plain, unique_keys=(), limits=_LIMITS)
        columns = dict(zip(plain.names, batch.columns, strict=True))
        self._write([self._batch(columns, batch.num_rows)])

    def write_files(self, kind: str, pieces: Sequence[Mapping[str, pa.Array]]) -> None:
        """Write adds or removes as one row group.

        Args:
            kind: `add` or `remove`.
            pieces: Their fields, some rows after the others; what is missing is null.
        """
        target = self._schema.field(kind).type
        batches = []
        for columns in pieces:
            rows = len(columns["path"])
            arrays = [
                columns[item.name] if item.name in columns else nulls(rows, item.type)
                for item in target
            ]
            files = pa.StructArray.from_arrays(arrays, fields=list(target))
            batches.append(self._batch({kind: files}, rows))
            self._counts[kind] += rows
        self._write(batches)

    def publish(self, tags: Mapping[str, str] | None = None) -> WrittenFile:
        """End the file, hold its footer against what was given to it, and let it appear."""
        self._writer.close()
        size = self._output.file.tell()
        counted = count_actions(self._footer[0])
        given = (self._counts["rows"], self._counts["add"], self._counts["remove"])
        if counted != given:
            self.discard()
            raise InternalError(f"{self.path} has {counted} actions, and was given {given}")
        self._output.publish()
        rows, adds, removes = given
        return WrittenFile(
            path=self.path, bytes=size, rows=rows, adds=adds, removes=removes, tags=tags or {}
        )

    def discard(self) -> None:
        """Leave nothing behind."""
        self._writer.is_open = False  # or it would still try to write a footer
        self._output.discard()

    def _batch(self, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        arrays = [
            columns[item.name] if item.name in columns else nulls(rows, item.type)
            for item in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _write(self, batches: Sequence[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches, self._schema)
        self._counts["rows"] += table.num_rows
        self._writer.write_table(table, table.num_rows or None)


def checkpoint_schema(shape: CheckpointShape, *, others: bool) -> pa.Schema:
    """Return what a row looks like; sidecars have file actions alone."""
    files = [("add", shape.add), ("remove", shape.remove)]
    return pa.schema([*(OTHERS.items() if others else ()), *files])


def count_actions(footer: pq.FileMetaData) -> tuple[int, int, int]:
    """Return how many rows, adds and removes a file of a checkpoint has, by its footer."""
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    counts = []
    for column in ("add.path", "remove.path"):
        groups = (footer.row_group(at) for at in range(footer.num_row_groups))
        at = places[column]
        counts.append(sum(g.num_rows - g.column(at).statistics.null_count for g in groups))
    return footer.num_rows, counts[0], counts[1]


def _leaves(schema: pa.Schema) -> list[str]:
    """Return the names that Parquet has for the leaf columns."""
    return [leaf for item in schema for leaf in _leaves_below(item.name, item.type)]


def _leaves_below(name: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for item in kind:
            yield from _leaves_below(f"{name}.{item.name}", item.type)
    elif pa.types.is_map(kind):
        yield from (f"{name}.key_value.key", f"{name}.key_value.value")
    elif pa.types.is_list(kind):
        yield f"{name}.list.element"
    else:
        yield name
