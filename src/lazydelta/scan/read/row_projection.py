"""What the rows of a read look like, and how the rows of a file become them.

Knows columns: the table's, those that only the predicate needs, partition values, and the ones
that a caller may ask for beside them (the file's path, row ids). Does not open anything.
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
from lazydelta.scan.read.transform import Fit, Source, decoded, fit_file
from lazydelta.schema import PrimitiveType, StructField, StructType, to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.parquet import LegacyCalendar, Rows
    from lazydelta.snapshot import SnapshotState

    Positions: TypeAlias = pa.Int32Array | slice
    """Of rows; a slice where they are neighbours."""

__all__ = ["FileProjection", "RowProjection"]

_LONG = PrimitiveType("long")
_POOL = pa.system_memory_pool()
"""Rows that are kept for long are copied into the pool that rows are decoded into (ADR 0020)."""
_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
_ROW_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"


class FileFacts(Protocol):
    """What the log says of the file that rows are from."""

    @property
    def shown_path(self) -> str:
        """Its path, decoded."""

    @property
    def constants(self) -> Mapping[str, pa.Scalar]:
        """Its partition values by column."""

    @property
    def base_row_id(self) -> int | None:
        """The id of its first row."""

    @property
    def row_commit_version(self) -> int | None:
        """The version of its rows that do not say otherwise."""


@dataclass(frozen=True, slots=True)
class _Tracked:
    """A column of row tracking: its name, and where files keep values that were moved."""

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
        self.file_column: str | None = None
        self.tracked: tuple[_Tracked, ...] = ()
        self.schema: pa.Schema = to_arrow_schema(StructType(self.fields))
        self.data_types = tuple(to_arrow_schema(StructType(self.data_fields)).types)
        self._fits: dict[tuple[bytes, LegacyCalendar | None], FileProjection] = {}
        self._lock = threading.Lock()

    @classmethod
    def build(
        cls,
        snapshot: SnapshotState,
        *,
        columns: Sequence[str] | None,
        residual: Predicate | None,
        file_column: str | None,
        row_id_column: str | None,
        row_commit_version_column: str | None,
    ) -> RowProjection:
        """Decide on the columns of a read.

        Raises:
            ConfigError: A column asked for beside the table's has the name of one of them.
            UnsupportedFeatureError: Row ids of a table that does not track rows.
        """
        by_name = {field.name: field for field in snapshot.schema}
        names = by_name if columns is None else columns
        fields = [by_name[name] for name in names]
        shape = cls(fields, _only_filtered(residual, by_name, set(names)), snapshot, residual)
        shape._show("file_column_name", file_column, pa.string())
        shape.file_column = file_column
        shape.tracked = (
            *shape._track(snapshot, row_id_column, _ROW_ID),
            *shape._track(snapshot, row_commit_version_column, _ROW_VERSION),
        )
        return shape

    @property
    def tracks_rows(self) -> bool:
        """Whether row ids or their versions are shown."""
        return bool(self.tracked)

    def fit(self, schema: pa.Schema, calendar: LegacyCalendar | None) -> FileProjection:
        """Return how files of a schema become rows; looked at once for each.

        Args:
            schema: Theirs.
            calendar: What of them is in the old one; None if nothing is.

        Raises:
            FileSchemaError: They cannot.
        """
        key = schema.remove_metadata().serialize().to_pybytes(), calendar
        found = self._fits.get(key)
        if found is None:
            fit = fit_file(schema, self.data_fields, self.mode, calendar)
            stored = [tracked.stored for tracked in self.tracked if tracked.stored is not None]
            found = FileProjection(self, fit, fit_file(schema, stored, "none"))
            with self._lock:
                self._fits[key] = found
        return found

    def _show(self, setting: str, name: str | None, kind: pa.DataType) -> None:
        if name is None:
            return
        if not isinstance(name, str) or not name:
            raise ConfigError(setting, f"a column needs a name, not {name!r}")
        if name.lower() in {known.lower() for known in self.schema.names}:
            raise ConfigError(setting, f"the table has a column {name!r} already")
        self.schema = self.schema.append(pa.field(name, kind))

    def _track(self, snapshot: SnapshotState, name: str | None, key: str) -> tuple[_Tracked, ...]:
        if name is None:
            return ()
        configuration = snapshot.metadata.configuration
        if "rowTracking" not in (snapshot.protocol.writer_features or ()):
            reason = "its protocol has no rowTracking, so rows have no ids"
            raise UnsupportedFeatureError(snapshot.store.root, ("row ids",), "read", reason)
        self._show("row_id_column", name, pa.int64())
        stored = configuration.get(key)
        held = None if stored is None else StructField(stored, _LONG)
        return (_Tracked(name, held, key == _ROW_ID),)


class FileProjection:
    """How files of one schema become rows."""

    def __init__(self, shape: RowProjection, table: Fit, tracking: Fit) -> None:
        self._shape = shape
        self.leaves = table.leaves
        names = [field.name for field in shape.data_fields]
        self._sources = dict(zip(names, table.sources, strict=True))
        self._types = dict(zip(names, shape.data_types, strict=True))
        self._tracking = tracking.sources
        self.columns = _columns((*table.sources, *tracking.sources))
        converted = [
            kind
            for source, kind in zip(table.sources, shape.data_types, strict=True)
            if source is not None and source.convert is not None
        ]
        self.takes_views = all(pt.is_primitive(kind) or pt.is_decimal(kind) for kind in converted)
        """Whether texts may be views in the file's rows: nothing has to be made of them."""
        self._is_all = len(table.sources) == len(shape.fields) and not converted
        self.filter_columns = _columns(
            [source for name, source in self._sources.items() if name in shape.filter_names]
        )
        filtered = set(self.filter_columns)
        self.other_columns = tuple(name for name in self.columns if name not in filtered)

    def renamed(self, *, views: bool) -> pa.Schema | None:
        """Return the columns as they are shown, if all that the file's need is another name.

        Args:
            views: Whether texts and bytes are views.
        """
        shape = self._shape
        has_all = self._is_all and None not in self._sources.values()
        if not has_all or shape.residual is not None or shape.file_column or shape.tracked:
            return None
        schema = shape.schema
        return with_types(schema, map(view_type, schema.types)) if views else schema

    def matches(self, rows: Rows, file: FileFacts) -> pa.BooleanArray | None:
        """Return which rows match the predicate; None if there is none. Null is no match."""
        if self._shape.residual is None:
            return None
        return evaluate(self._shape.residual, _Values(self, rows, file), rows.length)

    def batch(
        self, rows: Rows, file: FileFacts, keep: pa.BooleanArray | None, *, views: bool = False
    ) -> pa.RecordBatch | None:
        """Return the rows to show, in the shape's schema; None if there are none.

        Args:
            rows: As the file has them.
            file: What the log says of it.
            keep: Which rows to show; None shows all.
            views: Whether texts and bytes may be views, whatever the shape's schema says.
        """
        shape = self._shape
        chosen = slice(0, rows.length) if keep is None else _positions(keep)
        count = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
        if not count:
            return None
        arrays = [
            self.values(rows, field.name, chosen)
            if field.name in self._sources
            else pa.repeat(file.constants[field.name], count)
            for field in shape.fields
        ]
        if shape.file_column is not None:
            arrays.append(pa.repeat(string_scalar(file.shown_path), count))
        arrays += [_picked(array, chosen) for array in self._tracked(rows, file)]
        if not arrays:  # rows without columns still count
            empty = pa.Array.from_buffers(pa.struct([]), count, [None])
            return pa.RecordBatch.from_struct_array(empty)
        schema = (
            with_types(shape.schema, [array.type for array in arrays]) if views else shape.schema
        )
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def values(self, rows: Rows, name: str, chosen: Positions) -> pa.Array:
        """Return the values of a column, of the chosen rows; the others are not converted."""
        source = self._sources[name]
        if source is None or rows.columns is None:
            return _picked(pa.nulls(rows.length, self._types[name]), chosen)
        array = rows.columns.column(source.name)
        if source.convert is not None and _has_views(array.type):
            return _picked(source.convert(decoded(array)), chosen)
        array = decoded(_picked(array, chosen))
        return array if source.convert is None else source.convert(array)

    def _tracked(self, rows: Rows, file: FileFacts) -> list[pa.Array]:
        sources = iter(self._tracking)
        arrays = []
        for column in self._shape.tracked:
            default = _default_ids(rows, file, is_id=column.is_id)
            source = None if column.stored is None else next(sources)
            if source is not None and rows.columns is not None:
                stored = decoded(rows.columns.column(source.name))
                moved = stored if source.convert is None else source.convert(stored)
                default = pc.coalesce(moved, default)
            arrays.append(default)
        return arrays


class _Values:
    """The columns of a predicate, for one batch."""

    def __init__(self, fit: FileProjection, rows: Rows, file: FileFacts) -> None:
        self._fit = fit
        self._rows = rows
        self._file = file

    def __call__(self, column: Any) -> pa.Array:
        name, *inner = column.path
        constant = self._file.constants.get(name)
        if constant is not None:
            return pa.repeat(constant, self._rows.length)
        array = self._fit.values(self._rows, name, slice(0, self._rows.length))
        for part in inner:
            array = pc.struct_field(array, array.type.get_field_index(part))
        return array


def _columns(sources: Sequence[Source | None]) -> tuple[str, ...]:
    names = [name for source in sources if source is not None for name in source.columns]
    return tuple(dict.fromkeys(names))


def _positions(keep: pa.BooleanArray) -> Positions:
    """Return where a mask is true: taking rows by position is three times as fast as by mask.

    Neighbours are not copied at all, unless they are the smaller part of what they would hold on
    to: the rows of a clustered column are neighbours.
    """
    found = np.flatnonzero(true_mask(keep))
    first, end = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
    if end - first == len(found) and 2 * len(found) >= len(keep):
        return slice(first, end)
    return from_numpy(found.astype(np.int32))


def _picked(array: pa.Array, chosen: Positions) -> pa.Array:
    if not isinstance(chosen, slice):
        return pc.take(array, chosen, boundscheck=False, memory_pool=_POOL)
    length = chosen.stop - chosen.start
    return array if length == len(array) else array.slice(chosen.start, length)


@lru_cache(maxsize=1024)
def _has_views(kind: pa.DataType) -> bool:
    """Whether there are views in a type: Arrow cannot take some of their values from others.

    Files of deltalake that it wrote while deleting rows say that their texts are views.
    """
    if pa.types.is_nested(kind):
        return any(_has_views(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _default_ids(rows: Rows, file: FileFacts, *, is_id: bool) -> pa.Array:
    first = file.base_row_id if is_id else file.row_commit_version
    if first is None:
        return pa.nulls(rows.length, pa.int64())
    if not is_id:
        return from_numpy(np.full(rows.length, first, np.int64))
    return from_numpy(np.arange(rows.start, rows.start + rows.length, dtype=np.int64) + first)


def _only_filtered(
    residual: Predicate | None, by_name: Mapping[str, StructField], shown: set[str]
) -> list[StructField]:
    """Return the fields that only the predicate needs; of structs, only the parts it names."""
    paths = _paths(residual)
    found: dict[str, StructField] = {}
    for name in dict.fromkeys(path[0] for path in paths if path[0] not in shown):
        wanted = [path[1:] for path in paths if path[0] == name]
        found[name] = _narrowed(by_name[name], wanted)
    return list(found.values())


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
