"""One file -> the changes it tells of, as Arrow batches.

A file is taken whole (change files, files added or removed), without the rows that its deletion
vector hides, or, where only its vector changed, for the rows in which the two vectors differ: then
row groups in which they agree are not read. Which files, and of which versions, is
`changes.change_plan`'s business; `scan` brings their columns to the table's.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

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
from lazydelta.scan.read import FileSchemaError, FileStores, RowProjection, data_file_error
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
    "CHANGE_FILE",
    "DELETE",
    "FIELDS",
    "INSERT",
    "TIME",
    "VERSION",
    "ChangeReader",
    "FileTask",
]

TYPE, VERSION, TIME = CHANGE_COLUMNS
"""The columns of a change beside the table's own."""

INSERT, DELETE, CHANGE_FILE = "insert", "delete", "change file"
"""What to take from a file: its rows as one of the two types, or as the file itself says."""

FIELDS = (
    StructField(TYPE, PrimitiveType("string")),
    StructField(VERSION, PrimitiveType("long")),
    StructField(TIME, PrimitiveType("timestamp")),
)
"""Those columns, as they follow the table's own."""

Mask: TypeAlias = pa.BooleanArray | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileTask:
    """One file to read, and what to take from it."""

    path: str
    shown_path: str
    size: int | None
    version: int
    kinds: tuple[str, ...]
    vectors: DeletionVectorGroup
    places: tuple[int, ...]
    """Where in the group its vectors are: its own and, if only that changed, the one before."""
    constants: Mapping[str, pa.Scalar]
    """Values of partition columns, version and time."""
    base_row_id: None = None
    row_commit_version: None = None


@dataclass(frozen=True, slots=True)
class _Filter:
    """A predicate in three parts: decided before a file is read, for its rows, for its footer."""

    exact: Predicate | None = None
    residual: Predicate | None = None
    rule: Predicate | None = None

    @classmethod
    def build(
        cls, predicate: Predicate | None, schema: StructType, known: Sequence[str], *, skips: bool
    ) -> _Filter:
        """Bind a predicate.

        Args:
            predicate: What to bind; None matches all.
            schema: Whose columns it names.
            known: The columns that have one value in a file.
            skips: Whether row groups are left out by their footer.
        """
        if predicate is None:
            return cls()
        exact, residual = split_conjuncts(bind(predicate, schema, known))
        rule = None if residual is None or not skips else to_skipping(residual)
        return cls(exact, residual, rule)

    def columns(self) -> set[str]:
        """Return what rows must have to be judged."""
        nodes = () if self.residual is None else self.residual.walk()
        return {node.path[0] for node in nodes if isinstance(node, Column)}


class ChangeReader:
    """Reads files as changes, in one schema. Safe to use from several threads.

    Args:
        snapshot: The version whose schema rows are shown in.
        columns: What to show; None shows all.
        where: Only changes that match.
        options: How rows are read.

    Raises:
        ColumnNotFoundError: A name is neither the table's nor one of the feed's own.
        SchemaError: The table has a column with a name of the feed's own.
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
        own = {field.name for field in FIELDS}
        for name in snapshot.schema.names:
            if name.lower() in own:
                reason = f"the column {name!r} has a name that the change data feed needs"
                raise SchemaError(reason, self._table)
        every = StructType((*snapshot.schema.fields, *FIELDS))
        fields = every.fields if columns is None else [every.find((c,))[0] for c in columns]
        self._shown = [field.name for field in fields]
        self.schema: pa.Schema = to_arrow_schema(StructType(tuple(fields)))
        known = (*snapshot.partition_columns, VERSION, TIME)
        skips = options.enable_parquet_pushdown
        self._typed = _Filter.build(where, every, known, skips=skips)
        self._plain = _Filter.build(where, every, (*known, TYPE), skips=skips)
        needed = {*self._shown, *self._typed.columns()}
        self._shape = RowProjection.build(
            snapshot,
            columns=[name for name in snapshot.schema.names if name in needed],
            residual=None,
            file_column=None,
            row_id_column=None,
            row_commit_version_column=None,
        )
        self.places = FileStores(snapshot.store, snapshot.config)

    def decided(self, kind: str, known: Mapping[str, pa.Array], count: int) -> list[bool]:
        """Return which files may have matching changes, by what is known before they are read.

        Args:
            kind: What would be taken from them.
            known: Values by column, one for each file.
            count: How many files.
        """
        exact = self._filter(kind).exact
        if exact is None:
            return [True] * count
        repeated = {**known, TYPE: pa.repeat(string_scalar(kind), count)}
        found = evaluate(exact, lambda column: repeated[column.path[0]], count)
        return [value is True for value in found.to_pylist()]

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file.

        Raises:
            DataFileNotFoundError: It is gone, as after a vacuum.
            DataFileError: It is damaged, or not of the table's types.
            DeletionVectorError: A vector of it is missing or damaged.
            PathNotAllowedError: It lies where this table may not reach.
        """
        place = self._snapshot.resolver.to_open(task.path)
        vectors = [task.vectors.take(at) for at in task.places]
        try:
            file = DataFile(
                self.places.store(place), place.path, task.size,
                max_decoded_bytes=self._inflated_limit, rebase_mode=self._rebase_mode,
            )  # fmt: skip
        except ObjectNotFoundError:
            raise DataFileNotFoundError(self._table, task.shown_path, task.version) from None
        with closing(file):
            for vector in vectors:
                if vector is not None and vector.last >= file.num_rows:
                    reason = f"it lists row {vector.last}, but the file has {file.num_rows} rows"
                    raise DeletionVectorError(self._table, task.shown_path, reason)
            try:
                for kind in task.kinds:
                    yield from self._changes(file, task, kind, vectors)
            except (FileSchemaError, BadVariantError, pa.ArrowException) as error:
                raise data_file_error(self._table, task.shown_path, error) from error

    def _filter(self, kind: str) -> _Filter:
        return self._typed if kind == CHANGE_FILE else self._plain

    def _changes(
        self, file: DataFile, task: FileTask, kind: str, vectors: Sequence[DeletedRows | None]
    ) -> Iterator[pa.RecordBatch]:
        fit = self._shape.for_file(file.schema, file.calendar)
        columns, leaves, constants = fit.columns, dict(fit.leaves), dict(task.constants)
        if kind == CHANGE_FILE:
            if TYPE not in file.schema.names:
                raise FileSchemaError(f"a change file without the column {TYPE!r}")
            columns, leaves[TYPE,] = (*columns, TYPE), TYPE
        else:
            constants[TYPE] = string_scalar(kind)
        groups = matching_row_groups(file.metadata, self._filter(kind).rule, leaves, constants)
        keep = _selector(kind, vectors)
        if len(vectors) > 1:
            groups = _with_rows(file, groups, keep)
        for rows in file.read(
            columns, groups, batch_rows=self._batch_rows, keep=keep, native=False
        ):
            batch = self._batch(fit, rows, task, kind)
            if batch is not None:
                yield batch

    def _batch(
        self, fit: FileProjection, rows: RowBatch, task: FileTask, kind: str
    ) -> pa.RecordBatch | None:
        found = fit.batch(rows, task)
        if found is None:
            return None
        count = found.num_rows
        arrays = dict(zip(found.schema.names, found.columns, strict=True))
        arrays[TYPE] = (
            pa.repeat(string_scalar(kind), count) if kind != CHANGE_FILE else _types(rows)
        )
        for name in (VERSION, TIME):
            arrays[name] = pa.repeat(task.constants[name], count)
        residual = self._filter(kind).residual
        names = self._shown or [VERSION]  # rows without columns still count
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in names], names)
        if residual is not None:
            matches = evaluate(residual, lambda column: _value(arrays, column), count)
            if not matches.true_count:
                return None
            batch = batch.filter(matches)
        if not self._shown:
            return batch.select([])
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def _selector(kind: str, vectors: Sequence[DeletedRows | None]) -> Callable[[int, int], Mask]:
    """Return what says which of some rows of a file count; None is all of them."""
    if len(vectors) < 2:
        vector = vectors[0] if vectors else None
        return lambda start, length: None if vector is None else vector.kept(start, length)
    after, before = vectors
    hidden, shown = (after, before) if kind == DELETE else (before, after)

    def differs(start: int, length: int) -> Mask:
        kept = None if hidden is None else hidden.kept(start, length)
        if kept is None:  # nothing is hidden here, so nothing was deleted (or restored)
            return pa.repeat(_FALSE, length)
        also = None if shown is None else shown.kept(start, length)
        gone = pc.invert(kept)
        return gone if also is None else pc.and_(gone, also)

    return differs


_FALSE = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\0")])[0]


def _with_rows(
    file: DataFile, groups: Sequence[int], keep: Callable[[int, int], Mask]
) -> list[int]:
    """Return the row groups in which some row counts."""
    ends = [0]
    for at in range(file.metadata.num_row_groups):
        ends.append(ends[-1] + file.metadata.row_group(at).num_rows)
    spans = list(pairwise(ends))
    masks = ((at, keep(spans[at][0], spans[at][1] - spans[at][0])) for at in groups)
    return [at for at, mask in masks if mask is None or mask.true_count]


def _types(rows: RowBatch) -> pa.Array:
    """Return the change types of a change file as written, values of other engines included."""
    assert rows.columns is not None  # noqa: S101 - the column was asked for
    found = rows.columns.column(TYPE)
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    return found.cast(pa.string())


def _value(arrays: Mapping[str, pa.Array], column: Any) -> pa.Array:
    name, *inner = column.path
    array = arrays[name]
    for part in inner:
        array = pc.struct_field(array, array.type.get_field_index(part))
    return array
