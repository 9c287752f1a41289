"""Projection: the columns of a read, and the conversion of a file's rows to them.

Columns are the table's, those that only the predicate needs, partition values, and metadata columns
(the file's path, row ids). Opens nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import from_numpy, string_scalar, true_mask
from lazydelta.errors import ConfigError, UnsupportedFeatureError
from lazydelta.expressions import evaluate
from lazydelta.expressions.nodes import Column
from lazydelta.scan.read.arrow_casts import view_type, with_types
from lazydelta.scan.read.transform import ColumnMatches, Source, decoded, match_columns
from lazydelta.schema import PrimitiveType, StructField, StructType, to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.parquet import LegacyCalendar, RowBatch
    from lazydelta.snapshot import SnapshotState

    Positions: TypeAlias = pa.Int32Array | slice
    """Of rows; a slice where they are contiguous."""

__all__ = ["FileInfo", "FileProjection", "RowProjection"]

_LONG = PrimitiveType("long")
_POOL = pa.system_memory_pool()
"""Output rows are allocated in the pool that files are decoded into (ADR 0020)."""
_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"


class FileInfo(Protocol):
    """The log's facts about a file that its rows may contain."""

    @property
    def shown_path(self) -> str:
        """The path, decoded."""

    @property
    def constants(self) -> Mapping[str, pa.Scalar]:
        """Partition values by column."""

    @property
    def base_row_id(self) -> int | None:
        """The id of the first row."""

    @property
    def row_commit_version(self) -> int | None:
        """The commit version of rows that do not store their own."""


@dataclass(frozen=True, slots=True)
class _Tracked:
    """A row tracking column: its name, and the column of materialized values in files."""

    name: str
    stored: StructField | None
    is_id: bool


class RowProjection:
    """The columns of a read. Safe to use from several threads."""

    def __init__(
        self,
        fields: Sequence[StructField],
        extra: Sequence[StructField],
        snapshot: SnapshotState,
        residual: Predicate | None,
    ) -> None:
        self.fields = tuple(fields)
        self.residual = residual
        self.filter_names = frozenset(path[0] for path in _paths(residual))
        self.mode = snapshot.column_mapping_mode
        partition = set(snapshot.partition_columns)
        self.data_fields = tuple(f for f in (*fields, *extra) if f.name not in partition)
        self.partition_columns = tuple(f.name for f in (*fields, *extra) if f.name in partition)
        num_columns = len(set(snapshot.schema.names) - partition)
        self.has_all_columns = len(self.data_fields) == num_columns
        """Whether all columns of the table that files have are read."""
        self.file_column: str | None = None
        self.index_column: str | None = None
        self.tracked: tuple[_Tracked, ...] = ()
        self.schema: pa.Schema = to_arrow_schema(StructType(self.fields))
        self.data_types = tuple(to_arrow_schema(StructType(self.data_fields)).types)
        self._by_schema: dict[tuple[bytes, LegacyCalendar | None], FileProjection] = {}
        self._lock = threading.Lock()

    @classmethod
    def build(
        cls,
        snapshot: SnapshotState,
        *,
        columns: Sequence[str] | None,
        residual: Predicate | None,
        file_column: str | None,
        row_index_column: str | None,
        row_id_column: str | None,
        row_commit_version_column: str | None,
    ) -> RowProjection:
        """Return the columns of a read.

        Raises:
            ConfigError: A metadata column has the name of a column of the table.
            UnsupportedFeatureError: Row ids are requested of a table without row tracking.
        """
        by_name = {field.name: field for field in snapshot.schema}
        names = by_name if columns is None else columns
        fields = [by_name[name] for name in names]
        filter_only = _filter_only_fields(residual, by_name, set(names))
        projection = cls(fields, filter_only, snapshot, residual)
        projection._append("file_column_name", file_column, pa.string())
        projection.file_column = file_column
        projection._append("row_index_column", row_index_column, pa.int64())
        projection.index_column = row_index_column
        projection.tracked = (
            *projection._track(snapshot, row_id_column, _ROW_ID),
            *projection._track(snapshot, row_commit_version_column, _ROW_VERSION),
        )
        return projection

    @property
    def tracks_rows(self) -> bool:
        """Whether row ids or row commit versions are returned."""
        return bool(self.tracked)

    @property
    def needs_positions(self) -> bool:
        """Whether the position of rows in their file is needed."""
        return self.tracks_rows or self.index_column is not None

    def for_file(self, schema: pa.Schema, calendar: LegacyCalendar | None) -> FileProjection:
        """Return the projection of files with a schema; computed once for each schema.

        Args:
            schema: The schema of the files.
            calendar: Which columns are in the legacy calendar; None if none are.

        Raises:
            FileSchemaError: Their columns cannot be read as the table's.
        """
        key = schema.remove_metadata().serialize().to_pybytes(), calendar
        projection = self._by_schema.get(key)
        if projection is None:
            table = match_columns(schema, self.data_fields, self.mode, calendar)
            stored = [tracked.stored for tracked in self.tracked if tracked.stored is not None]
            projection = FileProjection(self, table, match_columns(schema, stored, "none"))
            with self._lock:
                self._by_schema[key] = projection
        return projection

    def _append(self, setting: str, name: str | None, kind: pa.DataType) -> None:
        if name is None:
            return
        if not isinstance(name, str) or not name:
            raise ConfigError(setting, f"expected a column name, not {name!r}")
        if name.lower() in {column.lower() for column in self.schema.names}:
            raise ConfigError(setting, f"the table already has a column {name!r}")
        self.schema = self.schema.append(pa.field(name, kind))

    def _track(self, snapshot: SnapshotState, name: str | None, key: str) -> tuple[_Tracked, ...]:
        if name is None:
            return ()
        configuration = snapshot.metadata.configuration
        if "rowTracking" not in (snapshot.protocol.writer_features or ()):
            reason = "its protocol does not have the feature rowTracking, so rows have no ids"
            raise UnsupportedFeatureError(snapshot.store.root, ("row ids",), "read", reason)
        self._append("row_id_column", name, pa.int64())
        stored_name = configuration.get(key)
        stored = None if stored_name is None else StructField(stored_name, _LONG)
        return (_Tracked(name, stored, key == _ROW_ID),)


class FileProjection:
    """The projection of files with one schema."""

    def __init__(self, read: RowProjection, table: ColumnMatches, tracking: ColumnMatches) -> None:
        self._read = read
        self.leaves = table.leaves
        names = [field.name for field in read.data_fields]
        self._sources = dict(zip(names, table.sources, strict=True))
        self._types = dict(zip(names, read.data_types, strict=True))
        self._tracking = tracking.sources
        self.columns = _columns((*table.sources, *tracking.sources))
        converted = [
            kind
            for source, kind in zip(table.sources, read.data_types, strict=True)
            if source is not None and source.convert is not None
        ]
        self.takes_views = all(pt.is_primitive(kind) or pt.is_decimal(kind) for kind in converted)
        """Whether strings may be decoded as views: no conversion needs plain ones."""
        self._is_all = len(table.sources) == len(read.fields) and not converted
        self.filter_columns = _columns(
            [source for name, source in self._sources.items() if name in read.filter_names]
        )
        filtered = set(self.filter_columns)
        self.other_columns = tuple(name for name in self.columns if name not in filtered)

    def output_schema(self, *, views: bool) -> pa.Schema | None:
        """Return the schema of the output if the file's columns only need other names.

        Args:
            views: Whether strings and binaries are views.
        """
        read = self._read
        has_all = self._is_all and None not in self._sources.values()
        has_metadata = read.file_column or read.needs_positions
        if not has_all or read.residual is not None or has_metadata:
            return None
        schema = read.schema
        return with_types(schema, map(view_type, schema.types)) if views else schema

    def matches(self, rows: RowBatch, file: FileInfo) -> pa.BooleanArray | None:
        """Return which rows match the predicate; None without one. Null is no match."""
        if self._read.residual is None:
            return None
        return evaluate(self._read.residual, _Values(self, rows, file), rows.length)

    def batch(
        self, rows: RowBatch, file: FileInfo, *, views: bool = False
    ) -> pa.RecordBatch | None:
        """Return the selected rows in the output schema; None if there are none.

        Args:
            rows: Rows of the file.
            file: The log's facts about it.
            views: Whether strings and binaries may be views, which the schema does not have.
        """
        read, mask, count = self._read, rows.selected, rows.num_rows
        if not count:
            return None
        positions = slice(0, rows.length) if mask is None else _positions(mask)
        arrays = [
            self.values(rows, field.name, positions)
            if field.name in self._sources
            else pa.repeat(file.constants[field.name], count)
            for field in read.fields
        ]
        if read.file_column is not None:
            arrays.append(pa.repeat(string_scalar(file.shown_path), count))
        if read.index_column is not None:
            arrays.append(_take(_row_index(rows), positions))
        arrays += [_take(array, positions) for array in self._tracked(rows, file)]
        if not arrays:  # rows without columns still count
            empty = pa.Array.from_buffers(pa.struct([]), count, [None])
            return pa.RecordBatch.from_struct_array(empty)
        schema = read.schema
        if views:
            schema = with_types(schema, [array.type for array in arrays])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def values(self, rows: RowBatch, name: str, positions: Positions) -> pa.Array:
        """Return the values of a column at positions; the others are not converted."""
        source = self._sources[name]
        if source is None or rows.columns is None:
            return _take(pa.nulls(rows.length, self._types[name]), positions)
        array = rows.columns.column(source.name)
        if source.convert is not None and _has_views(array.type):
            return _take(source.convert(decoded(array)), positions)
        array = decoded(_take(array, positions))
        return array if source.convert is None else source.convert(array)

    def _tracked(self, rows: RowBatch, file: FileInfo) -> list[pa.Array]:
        sources = iter(self._tracking)
        arrays = []
        for column in self._read.tracked:
            values = _default_tracking(rows, file, is_id=column.is_id)
            source = None if column.stored is None else next(sources)
            if source is not None and rows.columns is not None:
                stored = decoded(rows.columns.column(source.name))
                materialized = stored if source.convert is None else source.convert(stored)
                values = pc.coalesce(materialized, values)
            arrays.append(values)
        return arrays


class _Values:
    """Resolves the columns of a predicate for one batch."""

    def __init__(self, projection: FileProjection, rows: RowBatch, file: FileInfo) -> None:
        self._projection = projection
        self._rows = rows
        self._file = file

    def __call__(self, column: Any) -> pa.Array:
        name, *inner = column.path
        constant = self._file.constants.get(name)
        if constant is not None:
            return pa.repeat(constant, self._rows.length)
        array = self._projection.values(self._rows, name, slice(0, self._rows.length))
        for part in inner:
            array = pc.struct_field(array, array.type.get_field_index(part))
        return array


def _columns(sources: Sequence[Source | None]) -> tuple[str, ...]:
    names = [name for source in sources if source is not None for name in source.columns]
    return tuple(dict.fromkeys(names))


def _positions(mask: pa.BooleanArray) -> Positions:
    """Return where a mask is true, which it is at least once.

    Taking rows by position is three times as fast as by mask.

    Contiguous rows, as of a clustered column, are sliced without a copy, unless they are the
    smaller part of the batch that the slice would keep in memory.
    """
    positions = np.flatnonzero(true_mask(mask))
    first, end = int(positions[0]), int(positions[-1]) + 1
    if end - first == len(positions) and 2 * len(positions) >= len(mask):
        return slice(first, end)
    return from_numpy(positions.astype(np.int32))


def _take(array: pa.Array, positions: Positions) -> pa.Array:
    if not isinstance(positions, slice):
        return pc.take(array, positions, boundscheck=False, memory_pool=_POOL)
    length = positions.stop - positions.start
    return array if length == len(array) else array.slice(positions.start, length)


@lru_cache(maxsize=1024)
def _has_views(kind: pa.DataType) -> bool:
    """Whether a type contains views, of which Arrow cannot take values.

    deltalake stores view types in files that it rewrites while deleting rows.
    """
    if pa.types.is_nested(kind):
        return any(_has_views(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _default_tracking(rows: RowBatch, file: FileInfo, *, is_id: bool) -> pa.Array:
    first = file.base_row_id if is_id else file.row_commit_version
    if first is None:
        return pa.nulls(rows.length, pa.int64())
    if not is_id:
        return from_numpy(np.full(rows.length, first, np.int64))
    return _row_index(rows, first)


def _row_index(rows: RowBatch, first: int = 0) -> pa.Array:
    return from_numpy(np.arange(rows.start, rows.start + rows.length, dtype=np.int64) + first)


def _filter_only_fields(
    residual: Predicate | None, by_name: Mapping[str, StructField], columns: set[str]
) -> list[StructField]:
    """Return the fields that only the predicate needs; of structs, only the fields it names."""
    paths = _paths(residual)
    fields: dict[str, StructField] = {}
    for name in dict.fromkeys(path[0] for path in paths if path[0] not in columns):
        fields[name] = _narrowed(by_name[name], [path[1:] for path in paths if path[0] == name])
    return list(fields.values())


def _narrowed(field: StructField, paths: Sequence[tuple[str, ...]]) -> StructField:
    if not isinstance(field.type, StructType) or () in paths:
        return field
    parts = []
    for part in field.type:
        inner = [path[1:] for path in paths if path[0] == part.name]
        if inner:
            parts.append(_narrowed(part, inner))
    return StructField(field.name, StructType(tuple(parts)), field.nullable, field.metadata)


def _paths(predicate: Predicate | None) -> list[tuple[str, ...]]:
    nodes = () if predicate is None else predicate.walk()
    return [node.path for node in nodes if isinstance(node, Column)]
