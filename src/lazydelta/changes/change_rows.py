"""Reads the changes of one file as Arrow batches.

Change data files and files that were added or removed are read whole, without their deleted rows.
For a file with a new deletion vector, only the rows in which the old and the new vector differ are
changes; row groups without such rows are not read. `scan.read` converts the columns to the table's
types.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import string_scalar
from lazydelta.errors import (
    DataFileNotFoundError,
    DeletionVectorError,
    ObjectNotFoundError,
    SchemaError,
)
from lazydelta.expressions import bind, evaluate, split_conjuncts, to_skipping
from lazydelta.expressions.nodes import Column
from lazydelta.formats import BadVariantError, DeletionVectorGroup
from lazydelta.parquet import DataFile, matching_row_groups
from lazydelta.protocol.schemas import CHANGE_COLUMNS
from lazydelta.scan.read import (
    FileSchemaError,
    FileStores,
    PlacedRows,
    RowProjection,
    data_file_error,
)
from lazydelta.schema import PrimitiveType, StructField, StructType, to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lazydelta.config import ReadOptions
    from lazydelta.expressions import Predicate
    from lazydelta.formats import DeletedRows
    from lazydelta.parquet import RowBatch
    from lazydelta.scan.read import FileProjection
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "CHANGE_FIELDS",
    "CHANGE_FILE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "DELETE",
    "INSERT",
    "ChangePosition",
    "ChangeReader",
    "FileTask",
]

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = CHANGE_COLUMNS
"""Columns of the feed besides the table's."""

INSERT, DELETE, CHANGE_FILE = "insert", "delete", "change file"
"""How to read a file: all rows as one change type, or by its own `_change_type` column."""

CHANGE_FIELDS = (
    StructField(CHANGE_TYPE, PrimitiveType("string")),
    StructField(COMMIT_VERSION, PrimitiveType("long")),
    StructField(COMMIT_TIMESTAMP, PrimitiveType("timestamp")),
)
"""The fields of these columns; they follow the table's."""

Mask: TypeAlias = pa.BooleanArray | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileTask:
    """One file to read, and its kinds of changes."""

    path: str
    shown_path: str
    size: int | None
    version: int
    kinds: tuple[str, ...]
    vectors: DeletionVectorGroup
    vector_indexes: tuple[int, ...]
    """Indexes in the group: of its vector and, if only the vector changed, of the previous one."""
    constants: Mapping[str, pa.Scalar]
    """Values of partition columns, version and timestamp."""
    time: int
    """The time of the commit in milliseconds."""
    index: int
    """Number of the file in its commit."""
    first: tuple[int, int] = (0, 0)
    """The kind, and the row group, to start at."""
    base_row_id: None = None
    row_commit_version: None = None


class ChangePosition(NamedTuple):
    """A position between two changes."""

    version: int
    file: int
    """Number of a file in the commit."""
    kind: int
    """Number of the kind among those that the file is read as."""
    row_group: int
    rows: int
    """The changes that were delivered since the start of that row group."""
    time: int
    """The time of the commit. It depends on those before, which a resumed read does not list."""


@dataclass(frozen=True, slots=True)
class _Filter:
    """A predicate in three parts: for constants of a file, for its rows, for its footer."""

    constant: Predicate | None = None
    residual: Predicate | None = None
    skipping: Predicate | None = None

    @classmethod
    def build(
        cls,
        predicate: Predicate | None,
        schema: StructType,
        constants: Sequence[str],
        *,
        enable_skipping: bool,
    ) -> _Filter:
        """Bind a predicate.

        Args:
            predicate: The predicate; None matches all.
            schema: The schema of the changes.
            constants: The columns with one value per file.
            enable_skipping: Whether row groups are skipped by their statistics.
        """
        if predicate is None:
            return cls()
        constant, residual = split_conjuncts(bind(predicate, schema, constants))
        skipping = to_skipping(residual) if residual is not None and enable_skipping else None
        return cls(constant, residual, skipping)

    def columns(self) -> set[str]:
        """Return the columns that evaluating the residual needs."""
        nodes = () if self.residual is None else self.residual.walk()
        return {node.path[0] for node in nodes if isinstance(node, Column)}


class ChangeReader:
    """Reads the changes of files, in one schema. Thread-safe.

    Args:
        snapshot: The version whose schema the changes have.
        columns: Columns to return; None means all.
        where: Only changes that match.
        options: How rows are read.

    Raises:
        ColumnNotFoundError: Neither the table nor the feed has the column.
        SchemaError: The table has a column with the name of a column of the feed.
    """

    def __init__(
        self,
        snapshot: SnapshotState,
        *,
        columns: Sequence[str] | None,
        where: Predicate | None,
        options: ReadOptions,
    ) -> None:
        self._snapshot = snapshot
        self._table = snapshot.store.root
        self._batch_rows = options.batch_rows
        self._inflated_limit = options.max_inflated_bytes
        self._rebase_mode = options.datetime_rebase_mode
        reserved = {field.name for field in CHANGE_FIELDS}
        for name in snapshot.schema.names:
            if name.lower() in reserved:
                reason = f"column {name!r} has a name that the change data feed reserves"
                raise SchemaError(reason, self._table)
        full = StructType((*snapshot.schema.fields, *CHANGE_FIELDS))
        fields = full.fields if columns is None else [full.find((c,))[0] for c in columns]
        self._columns = [field.name for field in fields]
        self.schema: pa.Schema = to_arrow_schema(StructType(tuple(fields)))
        constants = (*snapshot.partition_columns, COMMIT_VERSION, COMMIT_TIMESTAMP)
        skipping = options.enable_parquet_pushdown
        self._change_file_filter = _Filter.build(where, full, constants, enable_skipping=skipping)
        constants = (*constants, CHANGE_TYPE)
        self._data_file_filter = _Filter.build(where, full, constants, enable_skipping=skipping)
        needed = {*self._columns, *self._change_file_filter.columns()}
        self._projection = RowProjection.build(
            snapshot,
            columns=[name for name in snapshot.schema.names if name in needed],
            residual=None,
            file_column=None,
            row_index_column=None,
            row_id_column=None,
            row_commit_version_column=None,
        )
        self.stores = FileStores(snapshot.store, snapshot.config)

    def may_match(self, kind: str, constants: Mapping[str, pa.Array], count: int) -> list[bool]:
        """Return which files may have matching changes, without opening them.

        Args:
            kind: How the files would be read.
            constants: Columns with one value per file.
            count: The number of files.
        """
        predicate = self._filter(kind).constant
        if predicate is None:
            return [True] * count
        arrays = {**constants, CHANGE_TYPE: pa.repeat(string_scalar(kind), count)}
        matches = evaluate(predicate, lambda column: arrays[column.path[0]], count)
        return [value is True for value in matches.to_pylist()]

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file; see `placed`."""
        return (batch for batch, _, _ in self._read(task, by_group=False))

    def placed(self, task: FileTask) -> Iterator[PlacedRows]:
        """Yield the changes of one file, each batch with the position after it.

        Raises:
            DataFileNotFoundError: It is missing, as after a vacuum.
            DataFileError: It is damaged, or its types do not fit the table.
            DeletionVectorError: A deletion vector is missing or damaged.
            PathNotAllowedError: It is outside the allowed roots.
        """
        start, count = task.first, 0
        for batch, kind, group in self._read(task, by_group=True):
            if (kind, group) != start:
                start, count = (kind, group), 0
            count += batch.num_rows
            position = ChangePosition(task.version, task.index, kind, group, count, task.time)
            yield PlacedRows(batch, position)

    def _read(self, task: FileTask, *, by_group: bool) -> Iterator[tuple[pa.RecordBatch, int, int]]:
        """Yield the changes of one file, with the number of their kind and row group."""
        location = self._snapshot.resolver.to_open(task.path)
        for index in task.vector_indexes:
            task.vectors.request(index)
        try:
            file = DataFile(
                self.stores.store(location), location.path, task.size,
                max_decoded_bytes=self._inflated_limit, rebase_mode=self._rebase_mode,
            )  # fmt: skip
        except ObjectNotFoundError:
            raise DataFileNotFoundError(self._table, task.shown_path, task.version) from None
        with closing(file):
            vectors = [task.vectors.take(index) for index in task.vector_indexes]
            for vector in vectors:
                if vector is not None and vector.last >= file.num_rows:
                    reason = f"it lists row {vector.last}, but the file has {file.num_rows} rows"
                    raise DeletionVectorError(self._table, task.shown_path, reason)
            try:
                for number in range(task.first[0], len(task.kinds)):
                    for batch, group in self._changes(file, task, number, vectors, by_group):
                        yield batch, number, group
            except (FileSchemaError, BadVariantError, pa.ArrowException) as error:
                raise data_file_error(self._table, task.shown_path, error) from error

    def _filter(self, kind: str) -> _Filter:
        return self._change_file_filter if kind == CHANGE_FILE else self._data_file_filter

    def _changes(
        self,
        file: DataFile,
        task: FileTask,
        number: int,
        vectors: Sequence[DeletedRows | None],
        by_group: bool,
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        kind = task.kinds[number]
        projection = self._projection.for_file(file.schema, file.calendar)
        columns, leaves = projection.columns, dict(projection.leaves)
        constants = dict(task.constants)
        if kind == CHANGE_FILE:
            if CHANGE_TYPE not in file.schema.names:
                raise FileSchemaError(f"a change data file without column {CHANGE_TYPE!r}")
            columns, leaves[CHANGE_TYPE,] = (*columns, CHANGE_TYPE), CHANGE_TYPE
        else:
            constants[CHANGE_TYPE] = string_scalar(kind)
        groups = matching_row_groups(file.metadata, self._filter(kind).skipping, leaves, constants)
        keep = _row_selector(kind, vectors)
        if len(vectors) > 1:
            groups = _selected_groups(file, groups, keep)
        if number == task.first[0]:
            groups = [group for group in groups if group >= task.first[1]]
        for run in [[group] for group in groups] if by_group else [groups]:
            for rows in file.read(
                columns, run, batch_rows=self._batch_rows, keep=keep, native=False
            ):
                batch = self._batch(projection, rows, task, kind)
                if batch is not None:
                    yield batch, run[0]

    def _batch(
        self, projection: FileProjection, rows: RowBatch, task: FileTask, kind: str
    ) -> pa.RecordBatch | None:
        table_columns = projection.batch(rows, task)
        if table_columns is None:
            return None
        count = table_columns.num_rows
        arrays = dict(zip(table_columns.schema.names, table_columns.columns, strict=True))
        is_typed = kind == CHANGE_FILE
        arrays[CHANGE_TYPE] = (
            _change_types(rows) if is_typed else pa.repeat(string_scalar(kind), count)
        )
        for name in (COMMIT_VERSION, COMMIT_TIMESTAMP):
            arrays[name] = pa.repeat(task.constants[name], count)
        residual = self._filter(kind).residual
        names = self._columns or [COMMIT_VERSION]  # keeps the row count of a batch without columns
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in names], names)
        if residual is not None:
            matches = evaluate(residual, lambda column: _value(arrays, column), count)
            if not matches.true_count:
                return None
            batch = batch.filter(matches)
        if not self._columns:
            return batch.select([])
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def _row_selector(kind: str, vectors: Sequence[DeletedRows | None]) -> Callable[[int, int], Mask]:
    """Return a function from a row range of a file to the mask of its changes; None is all rows."""
    if len(vectors) < 2:
        vector = vectors[0] if vectors else None
        return lambda start, length: None if vector is None else vector.kept(start, length)
    after, before = vectors
    deleted, live = (after, before) if kind == DELETE else (before, after)

    def differs(start: int, length: int) -> Mask:
        kept = None if deleted is None else deleted.kept(start, length)
        if kept is None:  # no row of the range was deleted (or restored)
            return pa.repeat(_FALSE, length)
        also_kept = None if live is None else live.kept(start, length)
        is_deleted = pc.invert(kept)
        return is_deleted if also_kept is None else pc.and_(is_deleted, also_kept)

    return differs


_FALSE = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\0")])[0]


def _selected_groups(
    file: DataFile, groups: Sequence[int], keep: Callable[[int, int], Mask]
) -> list[int]:
    """Return the row groups with at least one change."""
    ends = [0]
    for group in range(file.metadata.num_row_groups):
        ends.append(ends[-1] + file.metadata.row_group(group).num_rows)
    spans = list(pairwise(ends))
    masks = ((group, keep(spans[group][0], spans[group][1] - spans[group][0])) for group in groups)
    return [group for group, mask in masks if mask is None or mask.true_count]


def _change_types(rows: RowBatch) -> pa.Array:
    """Return the change types of a change data file as written, including unknown values."""
    assert rows.columns is not None  # noqa: S101 - the column was requested
    types = rows.columns.column(CHANGE_TYPE)
    if pa.types.is_dictionary(types.type):
        types = types.dictionary_decode()
    return types.cast(pa.string())


def _value(arrays: Mapping[str, pa.Array], column: Any) -> pa.Array:
    name, *inner = column.path
    array = arrays[name]
    for part in inner:
        array = pc.struct_field(array, array.type.get_field_index(part))
    return array
