"""The change data feed: which rows were inserted, deleted or updated, version by version.

A version is told by its change files where it has them; else by the files it added and removed,
and where a file only got another deletion vector, by the rows that the two differ in. Versions
come in order, and what is read ahead is bounded. `scan.change_range` decides which versions,
`scan.change_log` reads their commits, `scan.rows` brings files to the table's columns.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, text
from lazydelta.errors import (
    ConfigError,
    DataFileError,
    DataFileNotFoundError,
    DeletionVectorError,
    LogCorruptError,
    ObjectNotFoundError,
    SchemaError,
)
from lazydelta.expr import Column, as_predicate, bind, evaluate, split_conjuncts, to_skipping
from lazydelta.files import BadVariantError, DataFile, VectorGroup, matching_row_groups
from lazydelta.scan.change_log import CommitChanges, read_commits
from lazydelta.scan.change_range import AskedRange, ChangeRange, VersionCheck, find_range
from lazydelta.scan.pipeline import read_ahead
from lazydelta.scan.read import ReadOptions
from lazydelta.scan.request import Scan, Where
from lazydelta.scan.rows import RowShape
from lazydelta.scan.stream import Stream
from lazydelta.scan.transform import MisfitError
from lazydelta.schema import (
    PrimitiveType,
    StructField,
    StructType,
    parse_partition_values,
    physical_name,
    to_arrow_schema,
)
from lazydelta.snapshot import load_snapshot
from lazydelta.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lazydelta.config import Config
    from lazydelta.expr import Predicate
    from lazydelta.files import DeletedRows, Rows
    from lazydelta.scan.rows import FileFit
    from lazydelta.spec import Location

__all__ = ["read_changes"]

TYPE, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
_FIELDS = (
    StructField(TYPE, PrimitiveType("string")),
    StructField(VERSION, PrimitiveType("long")),
    StructField(TIME, PrimitiveType("timestamp")),
)
_INSERT, _DELETE, _CHANGE_FILE = "insert", "delete", "change file"
_TYPES = frozenset({_INSERT, _DELETE, "update_preimage", "update_postimage"})
_TIMESTAMP = pa.timestamp("us", "UTC")
_FILES_AT_ONCE = 32
_REMOTE_FILES = 8


def read_changes(
    store: Store,
    config: Config,
    *,
    start_version: int | None = None,
    end_version: int | None = None,
    start_timestamp: datetime | str | None = None,
    end_timestamp: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    where: Where = None,
    allow_out_of_range: bool = False,
    options: ReadOptions | None = None,
) -> pa.RecordBatchReader:
    """Return the changes of a range of versions, both ends inclusive, in the order of versions.

    Rows have the columns of the last version's schema, and `_change_type` (`insert`, `delete`,
    `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`.

    Args:
        store: Where the table is.
        config: Settings of the engine.
        start_version: The first version; 0 by default.
        end_version: The last version; the newest by default.
        start_timestamp: Begin with the first version at or after this time (naive: UTC).
        end_timestamp: End with the last version at or before this time.
        columns: What to show, in this order, of the table's columns and those three; None: all.
        where: Only changes that match; may name those three as well.
        allow_out_of_range: Whether a range may reach, or lie, past the newest version.
        options: How rows are read; batches are always in the order of versions.

    Raises:
        ChangeFeedDisabledError: A version of the range did not record its changes.
        ChangeFeedSchemaError: The schema changed so that the last one cannot show all rows.
        VersionNotCommittedError: The range reaches past the newest version.
        VersionCleanedUpError: Log cleanup removed commits of the range.
        TimestampNotFoundError: A time is past the newest commit, or before the oldest retained.
        ConfigError: The range or the options contradict themselves.
    """
    asked = AskedRange(
        start_version=start_version,
        end_version=end_version,
        start_timestamp=start_timestamp,
        end_timestamp=end_timestamp,
        allow_out_of_range=allow_out_of_range,
    )
    feed = _Feed(find_range(store, config, asked), columns, where, options or ReadOptions())
    return pa.RecordBatchReader.from_batches(feed.schema, Stream(feed.batches()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """One file to read, and the changes to take from it."""

    path: str
    shown_path: str
    size: int | None
    version: int
    kinds: tuple[str, ...]
    vectors: VectorGroup
    places: tuple[int, ...]
    """Where its vectors are in the group: two if it is the change between them that counts."""
    constants: Mapping[str, pa.Scalar]
    """Values of partition columns, version and time."""
    base_row_id: None = None
    row_commit_version: None = None


@dataclass(frozen=True, slots=True)
class _Filter:
    """A predicate, for files whose change type is known beforehand or is in them."""

    exact: Predicate | None = None
    residual: Predicate | None = None
    rule: Predicate | None = None

    @classmethod
    def build(cls, where: Where, schema: StructType, known: Sequence[str]) -> _Filter:
        predicate = as_predicate(where)
        if predicate is None:
            return cls()
        exact, residual = split_conjuncts(bind(predicate, schema, known))
        return cls(exact, residual, None if residual is None else to_skipping(residual))

    def columns(self) -> set[str]:
        """Return what the rows must have for it."""
        found = () if self.residual is None else self.residual.walk()
        return {node.path[0] for node in found if isinstance(node, Column)}


class _Feed:
    """One read of a range."""

    def __init__(
        self,
        found: ChangeRange,
        columns: Sequence[str] | None,
        where: Where,
        options: ReadOptions,
    ) -> None:
        self._found = found
        self._snapshot = snapshot = found.end
        self._table = snapshot.store.root
        self._options = options
        all_fields = StructType((*snapshot.schema.fields, *_FIELDS))
        _check_names(snapshot.schema, options)
        shown = [f.name for f in all_fields] if columns is None else list(columns)
        fields = [all_fields.find((name,))[0] for name in shown]
        if not fields:
            raise ConfigError("columns", "name at least one")
        self._shown = [field.name for field in fields]
        self.schema: pa.Schema = to_arrow_schema(StructType(tuple(fields)))
        known = (*snapshot.partition_columns, VERSION, TIME)
        self._plain = _Filter.build(where, all_fields, (*known, TYPE))
        self._typed = _Filter.build(where, all_fields, known)
        needed = {*self._shown, *self._plain.columns(), *self._typed.columns()}
        self._shape = RowShape.build(
            snapshot,
            columns=[name for name in snapshot.schema.names if name in needed],
            residual=None,
            file_column=None,
            row_id_column=None,
            row_commit_version_column=None,
        )
        self._stores: dict[str | None, Store] = {None: snapshot.store}
        self._lock = threading.Lock()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes, version by version."""
        width = self._options.files_at_once
        if width is None:
            cores = os.cpu_count() or 1
            width = cores if self._table.startswith("/") else max(cores, _REMOTE_FILES)
        return read_ahead(
            self._tasks(),
            self._read,
            width=width,
            memory_limit=self._options.memory_limit,
            ordered=True,
        )

    # --- files to read ----------------------------------------------------------------------

    def _tasks(self) -> Iterator[_Task]:
        found, snapshot = self._found, self._snapshot
        check = VersionCheck(found)
        with Stream(read_commits(snapshot.store, snapshot.config, found.commits)) as commits:
            for commit, known in zip(commits, found.times, strict=True):
                check.commit(commit.facts, commit.file)
                time = check.time_of(commit.facts, commit.file, known)
                constants = {VERSION: _long(commit.version), TIME: _time(time)}
                yield from self._tasks_of(commit, constants)

    def _tasks_of(
        self, commit: CommitChanges, constants: Mapping[str, pa.Array]
    ) -> Iterator[_Task]:
        if commit.change_files.num_rows:
            yield from self._tasks_for(commit, commit.change_files, (_CHANGE_FILE,), constants)
            return
        adds, removes = commit.adds, commit.removes
        moved, adds, removes = self._paired(commit, adds, removes)
        if moved is not None:
            yield from self._tasks_for(commit, moved, (_DELETE, _INSERT), constants)
        if removes.num_rows:
            removes = self._completed(commit, removes)
            yield from self._tasks_for(commit, removes, (_DELETE,), constants)
        if adds.num_rows:
            yield from self._tasks_for(commit, adds, (_INSERT,), constants)

    def _paired(
        self, commit: CommitChanges, adds: pa.Table, removes: pa.Table
    ) -> tuple[pa.Table | None, pa.Table, pa.Table]:
        """Split off files that are added and removed at once: only their vectors changed."""
        if not adds.num_rows or not removes.num_rows:
            return None, adds, removes
        keys = [_chunk(t.column("path"), self._snapshot.resolver.keys) for t in (adds, removes)]
        place = pc.index_in(keys[0], keys[1])
        if place.null_count == len(place):
            return None, adds, removes
        for kind, array in zip(("added", "removed"), keys, strict=True):
            if pc.count_distinct(array).as_py() != len(array):
                reason = f"a file is {kind} more than once"
                raise LogCorruptError(self._table, commit.file.path, reason, commit.version)
        before = removes.column("deletionVector").take(place.drop_null())
        moved = adds.filter(place.is_valid()).append_column("before", before)
        is_left = pc.invert(pc.is_in(keys[1], keys[0]))
        return moved, adds.filter(place.is_null()), removes.filter(is_left)

    def _completed(self, commit: CommitChanges, removes: pa.Table) -> pa.Table:
        """Return removes with partition values; those that lack them get the older add's."""
        values = removes.column("partitionValues")
        if not values.null_count or not self._snapshot.partition_columns:
            return removes
        snapshot = self._snapshot
        older = load_snapshot(snapshot.store, snapshot.config, version=commit.version - 1)
        keys = _chunk(removes.column("path"), snapshot.resolver.keys)
        parts = []
        with Stream(Scan(older)._adds(("path", "partitionValues"))) as batches:  # noqa: SLF001
            for batch in batches:
                found = pc.index_in(keys, snapshot.resolver.keys(batch.column("path")))
                if found.null_count < len(found):
                    parts.append(pc.take(batch.column("partitionValues"), found).to_pylist())
        known = [next((v for v in each if v is not None), None) for each in zip(*parts, strict=True)]
        if not known or None in known:
            reason = "it removes a file without saying its partition values"
            raise LogCorruptError(self._table, commit.file.path, reason, commit.version)
        at = removes.schema.get_field_index("partitionValues")
        return removes.set_column(at, "partitionValues", pa.chunked_array([known], values.type))

    def _tasks_for(
        self,
        commit: CommitChanges,
        files: pa.Table,
        kinds: Sequence[str],
        constants: Mapping[str, pa.Array],
    ) -> Iterator[_Task]:
        for batch in files.to_batches(max_chunksize=_FILES_AT_ONCE):
            known = {**self._partition_columns(commit, batch), **constants}
            masks = [self._decided(kind, known, batch.num_rows) for kind in kinds]
            resolver = self._snapshot.resolver
            paths, sizes = batch.column("path").to_pylist(), batch.column("size").to_pylist()
            shown = resolver.decoded(batch.column("path")).to_pylist()
            names = [n for n in ("deletionVector", "before") if n in batch.schema.names]
            vectors = [
                (path, vector)
                for name in names
                for path, vector in zip(shown, batch.column(name).to_pylist(), strict=True)
            ]
            group = VectorGroup(vectors, resolver, self._store)
            for at, path in enumerate(paths):
                wanted = tuple(k for k, mask in zip(kinds, masks, strict=True) if mask[at])
                if wanted:
                    yield _Task(
                        path=path,
                        shown_path=shown[at],
                        size=sizes[at],
                        version=commit.version,
                        kinds=wanted,
                        vectors=group,
                        places=tuple(at + i * len(paths) for i in range(len(names))),
                        constants={n: a[at if len(a) > 1 else 0] for n, a in known.items()},
                    )

    def _decided(self, kind: str, known: Mapping[str, pa.Array], count: int) -> list[bool]:
        """Return which files may have matching changes, by what is known before they are read."""
        exact = (self._typed if kind == _CHANGE_FILE else self._plain).exact
        if exact is None:
            return [True] * count

        def values(column: Column) -> pa.Array:
            name = column.path[0]
            if name == TYPE:
                return pa.repeat(text(kind), count)
            array = known[name]
            return array if len(array) == count else pa.repeat(array[0], count)

        found: list[bool] = pc.fill_null(evaluate(exact, values, count), False).to_pylist()  # noqa: FBT003
        return found

    def _partition_columns(
        self, commit: CommitChanges, files: pa.RecordBatch
    ) -> dict[str, pa.Array]:
        """Return the typed values of the partition columns."""
        snapshot, found = self._snapshot, {}
        values = files.column("partitionValues")
        for item in snapshot.schema:
            if item.name not in snapshot.partition_columns:
                continue
            if values.null_count:
                reason = "a file has no partition values"
                raise LogCorruptError(self._table, commit.file.path, reason, commit.version)
            key = text(physical_name(item, snapshot.column_mapping_mode))
            try:
                texts = pc.map_lookup(values, key, "first")
                found[item.name] = parse_partition_values(texts, item.type)
            except SchemaError as error:
                reason = f"column {item.name!r}: {error.reason}"
                raise SchemaError(reason, self._table) from None
        return found

    # --- one file ---------------------------------------------------------------------------

    def _read(self, task: _Task) -> Iterator[pa.RecordBatch]:
        place = self._snapshot.resolver.to_open(task.path)
        vectors = [task.vectors.take(at) for at in task.places]
        try:
            file = DataFile(self._store(place), place.path, task.size)
        except ObjectNotFoundError:
            raise DataFileNotFoundError(self._table, task.shown_path, task.version) from None
        with closing(file):
            for vector in vectors:
                if vector is not None and vector.last >= file.num_rows:
                    reason = f"it lists row {vector.last}, but the file has {file.num_rows} rows"
                    raise DeletionVectorError(self._table, task.shown_path, reason)
            try:
                for kind in task.kinds:
                    yield from _FileChanges(self, file, task, kind, vectors).batches()
            except (MisfitError, BadVariantError, pa.ArrowException) as error:
                reason = " ".join(str(error).split())
                raise DataFileError(self._table, task.shown_path, reason) from error
