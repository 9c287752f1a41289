"""Actions -> row groups of a checkpoint's files, encoded; which codec, which statistics.

A row group has one kind of action, so all its other columns are null, and of its own many fields
mostly are. What is null is encoded as pieces of their own, which are the same in every row group of
as many rows, and encoded once.
May be asked by several threads at a time. Knows no files, and not how many rows go together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from lazydelta.formats import JsonLimits, decode_lines, split_lines
from lazydelta.parquet import Piece
from lazydelta.scan.plan import nulls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape

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
# Unlike in most files, as moments are: Snappy would take longer than the rest of their encoding, to
# save a fifth of their bytes.
_UNLIKE = ("add.size", "add.modificationTime")
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
        self._options: dict[pa.Field, dict[str, Any]] = {}
        self._empty: dict[tuple[pa.Field, bool], Piece] = {}

    def others(self, actions: Sequence[Mapping[str, Any]]) -> ActionGroup:
        """Encode actions that are not about files."""
        lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        plain = pa.schema(list(OTHERS.items()))
        batch = decode_lines(split_lines(lines), plain, unique_keys=(), limits=_LIMITS)
        pieces = [
            self._piece(item, pa.chunked_array([column]))
            for item, column in zip(plain, batch.columns, strict=True)
        ]
        pieces += [
            self._null_piece(item, batch.num_rows) for item in self.schema if item not in plain
        ]
        return ActionGroup(rows=batch.num_rows, columns=pieces)

    def files(self, kind: str, pieces: Sequence[Mapping[str, pa.Array]]) -> ActionGroup:
        """Encode adds or removes.

        Args:
            kind: `add` or `remove`.
            pieces: Their fields, some rows after the others; what is missing is null.
        """
        rows = sum(len(columns["path"]) for columns in pieces)
        encoded: list[Piece] = []
        for item in self.schema:
            if item.name == kind:
                encoded += self._stretches(item, pieces, rows)
            else:
                encoded.append(self._null_piece(item, rows))
        counts = {"adds" if kind == "add" else "removes": rows}
        return ActionGroup(rows=rows, columns=encoded, **counts)

    def _stretches(
        self, action: pa.Field, pieces: Sequence[Mapping[str, pa.Array]], rows: int
    ) -> Iterator[Piece]:
        """Yield the fields of an action, those that follow each other and have values together."""
        given = {name for columns in pieces for name in columns}
        for has_values, items in groupby(action.type, lambda item: item.name in given):
            stretch = action.with_type(pa.struct(list(items)))
            if has_values:
                chunks = [_structs(columns, stretch.type) for columns in pieces]
                yield self._piece(stretch, pa.chunked_array(chunks, stretch.type))
            else:
                yield self._null_piece(stretch, rows, is_there=True)

    def _piece(self, item: pa.Field, column: pa.ChunkedArray) -> Piece:
        schema = pa.schema([item])
        options = self._options.get(item)
        if options is None:
            options = self._options[item] = _options(schema)
        return Piece.encoded(pa.Table.from_arrays([column], schema=schema), options)

    def _null_piece(self, item: pa.Field, rows: int, *, is_there: bool = False) -> Piece:
        """Return a column of nulls, or of structs that are there and have nothing but nulls."""
        found = self._empty.get((item, is_there))
        if found is None or found.rows != rows:
            column = _structs({}, item.type, rows) if is_there else nulls(rows, item.type)
            found = self._piece(item, pa.chunked_array([column]))
            self._empty[item, is_there] = found
        return found


def _structs(
    columns: Mapping[str, pa.Array], kind: pa.StructType, rows: int | None = None
) -> pa.StructArray:
    """Return structs of columns; those that are missing are null."""
    size = len(columns["path"]) if rows is None else rows
    arrays = [columns[i.name] if i.name in columns else nulls(size, i.type) for i in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def checkpoint_schema(shape: CheckpointShape, *, others: bool) -> pa.Schema:
    """Return what a row looks like; sidecars have file actions alone."""
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
        "write_batch_size": _ROWS_AT_ONCE,
        "write_page_checksum": True,
        "store_schema": False,
    }


def _codec(leaf: str, kind: pa.DataType) -> str:
    if leaf in _ZSTD:
        return "zstd"
    is_moment = pa.types.is_timestamp(kind) and not leaf.startswith(_REPEATED)
    return "none" if is_moment or leaf in _UNLIKE else "snappy"


def _leaves_below(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the names that Parquet has for the leaf columns, and their types."""
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
