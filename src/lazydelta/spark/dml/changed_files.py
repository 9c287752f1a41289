"""Tasks on files with known positions: write vectors, copy rows, read rows, write change files.

The input of each is a DataFrame of `POSITIONS`. What a task needs of its files is serialized with
it; only actions and descriptors return to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, string_scalar
from lazydelta.operations.dml import extend_vectors
from lazydelta.protocol.schemas import DELETION_VECTOR
from lazydelta.spark.arrow_conversion import conform_batches
from lazydelta.spark.dml.frame_columns import CLAUSE, FILE, INDEX, NUMBERED_FILES, ROW
from lazydelta.spark.dml.positions import is_member, load_bitmap
from lazydelta.spark.write_tasks import task_result
from lazydelta.writer.files import DeletionVectorWriter, write_change_files, write_data_files

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from pyspark.sql import types as t

    from lazydelta.spark.dml.target import RowRead
    from lazydelta.writer.files import DataLayout

__all__ = ["VECTORS", "FileTask", "copy_rows", "read_matched_rows", "write_matched_changes",
    "write_vectors"]  # fmt: skip

VECTORS = pa.schema([INDEX, *DELETION_VECTOR])
"""Result of `write_vectors`: the number of each file, and its new descriptor."""


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """Files of a job, how to read their rows and how to write new files; it can be pickled."""

    read: RowRead
    files: bytes
    """The files of all tasks, in the schema of `NUMBERED_FILES`."""
    layout: DataLayout

    def load(
        self, batches: Iterable[pa.RecordBatch], clauses: Container[int] | None = None
    ) -> _Share:
        """Return a task's share of the files, and the positions of some clauses, or of all."""
        files = pa.ipc.read_record_batch(self.files, NUMBERED_FILES)
        requested = set(files.column("index").to_pylist())
        rows: dict[int, dict[int, Any]] = {}
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("file", "clause", "rows"))
            for file, clause, data in zip(*columns, strict=True):
                if file in requested and (clauses is None or clause in clauses):
                    rows.setdefault(file, {})[clause] = None if data is None else load_bitmap(data)
        own = pc.is_in(files.column("index"), pa.array(list(rows), pa.int64()))
        return _Share(files=files.filter(own), rows=rows, read=self.read)


@dataclass(frozen=True, kw_only=True)
class _Share:
    """Files of one task, with the positions of each clause; None is all rows."""

    files: pa.RecordBatch
    rows: Mapping[int, Mapping[int, Any]]
    read: RowRead

    def united(self) -> dict[int, Any]:
        """Return the positions of all clauses of each file."""
        return {file: reduce(or_, clauses.values()) for file, clauses in self.rows.items()}

    def matched(self) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Yield file, clause and batches of the rows at the positions; the last column is `ROW`."""
        if not self.files.num_rows:
            return
        for file, batch in self.read.batches(self.files, self.united()):
            clauses = self.rows[file]
            for clause, bitmap in clauses.items():
                rows = batch
                if len(clauses) > 1:
                    rows = batch.filter(is_member(bitmap, batch.column(ROW)))
                if rows.num_rows:
                    yield file, clause, rows


def write_vectors(task: FileTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the deletion vectors of a task, several to a file."""

    def work() -> tuple[pa.Table, int]:
        share = task.load(batches)
        snapshot = share.read.snapshot.open()
        files, united = share.files.column("index"), share.united()
        bitmaps = (united[file] for file in files.to_pylist())
        writer = DeletionVectorWriter(snapshot.store)
        descriptors = extend_vectors(snapshot, share.files, bitmaps, writer)
        columns = [pa.array([d[f.name] for d in descriptors], f.type) for f in DELETION_VECTOR]
        return pa.Table.from_arrays([files, *columns], schema=VECTORS), len(files)

    return task_result(work)


def copy_rows(task: FileTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows that are not at the positions to new files."""

    def work() -> tuple[pa.Table, int]:
        share, count = task.load(batches), 0

        def kept() -> Iterator[pa.RecordBatch]:
            nonlocal count
            if not share.files.num_rows:
                return
            for _, batch in share.read.batches(share.files, share.united(), drops=True):
                count += batch.num_rows
                yield batch.drop_columns([ROW])

        store = share.read.snapshot.location.open()
        return write_data_files(kept(), store=store, layout=task.layout), count

    return task_result(work)


def write_matched_changes(
    task: FileTask, kinds: Mapping[int, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows at the positions to change files; `kinds` has the type of each clause."""

    def work() -> tuple[pa.Table, int]:
        share, count = task.load(batches, kinds), 0

        def changes() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for _, clause, rows in share.matched():
                count += rows.num_rows
                kind = pa.repeat(string_scalar(kinds[clause]), rows.num_rows)
                yield rows.drop_columns([ROW]).append_column("_change_type", kind)

        store = share.read.snapshot.location.open()
        return write_change_files(changes(), None, store=store, layout=task.layout), count

    return task_result(work)


def read_matched_rows(
    task: FileTask,
    schema: t.StructType,
    clauses: Container[int],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at the positions of clauses, with `FILE`, `ROW` and `CLAUSE`."""

    def numbered() -> Iterator[pa.RecordBatch]:
        for file, clause, rows in task.load(batches, clauses).matched():
            *columns, positions = rows.columns
            file_column, clause_column = (
                from_numpy(np.full(rows.num_rows, value, kind))
                for value, kind in ((file, np.int64), (clause, np.int32))
            )
            names = [*rows.schema.names[:-1], FILE, ROW, CLAUSE]
            columns += [file_column, positions, clause_column]
            yield pa.RecordBatch.from_arrays(columns, names)

    return conform_batches(numbered(), schema)
