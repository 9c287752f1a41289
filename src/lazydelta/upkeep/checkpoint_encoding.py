"""Actions -> row groups of a checkpoint's files, encoded; which codec, which statistics.

A row group has one kind of action, so all its other columns are null. Each column is encoded as a
piece of its own: one of nulls is the same in every row group of as many rows, and encoded once.
May be asked by several threads at a time. Knows no files, and not how many rows go together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from lazydelta.files import JsonLimits, Piece, decode_lines, split_lines
from lazydelta.scan import nulls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.upkeep.checkpoint_shape import CheckpointShape

__all__ = ["ActionEncoder", "ActionGroup", "checkpoint_schema"]

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
class ActionGroup:
    """A row group of actions, encoded."""

    rows: int
    adds: int = 0
    removes: int = 0
    columns: Sequence[Piece]
    """All columns of the file, side by side."""


class ActionEncoder:
    """Encodes actions for the files of one checkpoint.

    Args:
        shape: What the checkpoint looks like.
        others: Whether the files have actions that are not about files; sidecars have none.
    """

    def __init__(self, shape: CheckpointShape, *, others: bool) -> None:
        self.schema = checkpoint_schema(shape, others=others)
        self.options = _options(self.schema)
        """As `pq.ParquetWriter` takes them."""
        self._columns = {item.name: pa.schema([item]) for item in self.schema}
        self._options = {name: _options(column) for name, column in self._columns.items()}
        self._nulls: dict[str, Piece] = {}

    def others(self, actions: Sequence[Mapping[str, Any]]) -> ActionGroup:
        """Encode actions that are not about files."""
        lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        plain = pa.schema(list(OTHERS.items()))
        batch = decode_lines(split_lines(lines), plain, unique_keys=(), limits=_LIMITS)
        columns = {
            name: pa.chunked_array([column])
            for name, column in zip(plain.names, batch.columns, strict=True)
        }
        return ActionGroup(rows=batch.num_rows, columns=self._encoded(columns, batch.num_rows))

    def files(self, kind: str, pieces: Sequence[Mapping[str, pa.Array]]) -> ActionGroup:
        """Encode adds or removes.

        Args:
            kind: `add` or `remove`.
            pieces: Their fields, some rows after the others; what is missing is null.
        """
        target = self.schema.field(kind).type
        chunks = []
        for columns in pieces:
            rows = len(columns["path"])
            arrays = [
                columns[item.name] if item.name in columns else nulls(rows, item.type)
                for item in target
            ]
            chunks.append(pa.StructArray.from_arrays(arrays, fields=list(target)))
        files = pa.chunked_array(chunks, target)
        encoded = self._encoded({kind: files}, len(files))
        counts = {"adds" if kind == "add" else "removes": len(files)}
        return ActionGroup(rows=len(files), columns=encoded, **counts)

    def _encoded(self, columns: Mapping[str, pa.ChunkedArray], rows: int) -> list[Piece]:
        return [
            self._piece(name, columns[name]) if name in columns else self._null_piece(name, rows)
            for name in self.schema.names
        ]

    def _piece(self, name: str, column: pa.ChunkedArray) -> Piece:
        table = pa.Table.from_arrays([column], schema=self._columns[name])
        return Piece.encoded(table, self._options[name])

    def _null_piece(self, name: str, rows: int) -> Piece:
        found = self._nulls.get(name)
        if found is None or found.rows != rows:
            column = nulls(rows, self.schema.field(name).type)
            found = self._nulls[name] = self._piece(name, pa.chunked_array([column]))
        return found


def checkpoint_schema(shape: CheckpointShape, *, others: bool) -> pa.Schema:
    """Return what a row looks like; sidecars have file actions alone."""
    files = [("add", shape.add), ("remove", shape.remove)]
    return pa.schema([*(OTHERS.items() if others else ()), *files])


def _options(schema: pa.Schema) -> dict[str, Any]:
    leaves = [leaf for item in schema for leaf in _leaves_below(item.name, item.type)]
    return {
        "compression": {leaf: "zstd" if leaf in _ZSTD else "snappy" for leaf in leaves},
        "compression_level": {leaf: _ZSTD[leaf] for leaf in leaves if leaf in _ZSTD},
        "use_dictionary": [leaf for leaf in leaves if leaf.startswith(_REPEATED)],
        "write_statistics": [leaf for leaf in leaves if leaf not in _WITHOUT_BOUNDS],
        "write_page_index": True,
        "write_batch_size": _ROWS_AT_ONCE,
        "write_page_checksum": True,
        "store_schema": False,
    }


def _leaves_below(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the names that Parquet has for the leaf columns."""
    if pa.types.is_struct(kind):
        for item in kind:
            yield from _leaves_below(f"{name}.{item.name}", item.type)
    elif pa.types.is_map(kind):
        yield from (f"{name}.key_value.key", f"{name}.key_value.value")
    elif pa.types.is_list(kind):
        yield f"{name}.list.element"
    else:
        yield name
