"""Files of the target of a verb that the driver lists, and their rows with positions.

Executors read the rows with the reader of this package, which knows deletion vectors and positions.
The driver has the add actions of the files, never a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from lazydelta._arrow import from_mask, from_numpy
from lazydelta.errors import InternalError
from lazydelta.operations import RowTracking
from lazydelta.operations.dml import plain_rows
from lazydelta.scan import Scan
from lazydelta.scan.read import ChosenRows, read_files
from lazydelta.spark.arrow_conversion import conform_batches, read_schema
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.dml.frame_columns import FILE, INDEX, NUMBERED_FILES, ROW
from lazydelta.spark.jobs import named_task
from lazydelta.spark.planner import pruner_for, split_by_size
from lazydelta.spark.serialized_snapshot import SerializedSnapshot
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.expressions import Predicate
    from lazydelta.snapshot import SnapshotState

__all__ = ["UNTRACKED", "RowRead", "TargetFiles", "read_rows", "rows_schema"]

UNTRACKED = RowTracking()
"""Rows are read without ids."""
_POSITION = [t.StructField(FILE, t.LongType()), t.StructField(ROW, t.LongType())]


def rows_schema(
    snapshot: SnapshotState,
    columns: Sequence[str],
    tracking: RowTracking = UNTRACKED,
) -> t.StructType:
    """Return the schema of rows with their ids, file and position."""
    names = [name for name in (tracking.row_id, tracking.row_commit_version) if name is not None]
    ids = [t.StructField(name, t.LongType()) for name in names]
    return t.StructType([*read_schema(snapshot, columns), *ids, *_POSITION])


@dataclass(frozen=True, kw_only=True)
class RowRead:
    """Read of columns with the position of each row; it can be pickled."""

    snapshot: SerializedSnapshot
    columns: tuple[str, ...]
    where: Predicate | None = None
    tracking: RowTracking = UNTRACKED
    """The row ids to read too, after the columns."""

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        snapshot: SnapshotState,
        columns: Sequence[str],
        where: Predicate | None = None,
        tracking: RowTracking = UNTRACKED,
    ) -> RowRead:
        """Return a read of columns of a snapshot."""
        saved = SerializedSnapshot.of(snapshot, storage_options_file(spark))
        return cls(snapshot=saved, columns=tuple(columns), where=where, tracking=tracking)

    def batches(
        self, files: pa.RecordBatch, rows: Mapping[int, Any] | None = None, *, drops: bool = False
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of one file each, with its number; the last column is `ROW`.

        Args:
            files: The files, in the schema of `NUMBERED_FILES`.
            rows: Bitmaps of the rows to read, by number of the file; all rows of a file whose
                bitmap is None, or of all files.
            drops: Whether to read the other rows instead.
        """
        snapshot = self.snapshot.open()
        chosen: dict[str, Any] = {}
        shown = snapshot.resolver.decoded(files.column("path")).to_pylist()
        numbers = dict(zip(shown, files.column("index").to_pylist(), strict=True))
        if rows is not None:
            chosen = {path: rows[n] for path, n in numbers.items() if rows[n] is not None}
        is_chosen = from_mask(np.array([path in chosen for path in shown], np.bool_))
        positions = ChosenRows(positions=chosen, drops=drops)
        for part, selected in ((files.filter(is_chosen), positions),
            (files.filter(pc.invert(is_chosen)), None)):  # fmt: skip
            if part.num_rows:
                yield from self._batches(snapshot, part, selected, numbers)

    def _batches(
        self,
        snapshot: SnapshotState,
        files: pa.RecordBatch,
        rows: ChosenRows | None,
        numbers: Mapping[str, int],
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        options = replaced(
            self.tracking.read_options(plain_rows(snapshot)),
            file_column_name=FILE,
            row_index_column=ROW,
            ordered=False,
            files_at_once=1 if is_local(snapshot.store) else None,
        )
        scan = Scan(snapshot, where=self.where)
        with read_files(scan, [files], self.columns, options, rows=rows) as batches:
            for batch in batches:
                if batch.num_rows:
                    path = batch.column(FILE)[0].as_py()
                    names = [name for name in batch.schema.names if name not in (FILE, ROW)]
                    yield numbers[path], batch.select([*names, ROW])


@dataclass(frozen=True, kw_only=True)
class TargetFiles:
    """Files of a snapshot whose add actions the driver has."""

    spark: SparkSession
    snapshot: SnapshotState
    adds: pa.Table
    numbers: pa.Array
    """The number of each file, by which tasks name it."""

    @classmethod
    def listed(
        cls, spark: SparkSession, snapshot: SnapshotState, adds: pa.Table, first: int = 0
    ) -> TargetFiles:
        """Return files with consecutive numbers."""
        numbers = from_numpy(np.arange(first, first + adds.num_rows))
        return cls(spark=spark, snapshot=snapshot, adds=adds, numbers=numbers)

    @property
    def is_empty(self) -> bool:
        """Whether there is no file."""
        return not self.adds.num_rows

    def chosen(self, numbers: Sequence[int]) -> TargetFiles:
        """Return the files with these numbers, in their order.

        Raises:
            InternalError: There is no such file.
        """
        places = pc.index_in(pa.array(numbers, pa.int64()), self.numbers)
        if places.null_count:
            raise InternalError(f"{places.null_count} changed files are not in the table")
        adds = self.adds.take(places).combine_chunks()
        return replaced(self, adds=adds, numbers=self.numbers.take(places))

    def united(self, other: TargetFiles) -> TargetFiles:
        """Return these files, then others."""
        adds = pa.concat_tables([self.adds, other.adds]).combine_chunks()
        return replaced(self, adds=adds, numbers=pa.concat_arrays([self.numbers, other.numbers]))

    def numbered(self) -> pa.RecordBatch:
        """Return what tasks need of the files."""
        adds = self.adds.combine_chunks()
        columns = [adds.column(name).combine_chunks() for name in NUMBERED_FILES.names[1:]]
        return pa.RecordBatch.from_arrays([self.numbers, *columns], schema=NUMBERED_FILES)

    @property
    def num_tasks(self) -> int:
        """How many tasks should read the files."""
        return max(1, len(split_by_size(_sizes(self.numbered()))))

    def rows(self, columns: Sequence[str], where: Predicate | None = None) -> DataFrame:
        """Return columns of the files' rows, `FILE` and `ROW`.

        Args:
            columns: Names of columns of the table.
            where: Only rows that match; files that have none are skipped.
        """
        schema = rows_schema(self.snapshot, columns)
        mask = pruner_for(self.snapshot, where).mask(_batch(self.adds))
        files = self.numbered() if mask is None else self.numbered().filter(mask)
        read = RowRead.of(self.spark, self.snapshot, columns, where)
        return self.map_files("read_rows", schema, read_rows, read, schema, files=files)

    def map_files(
        self,
        name: str,
        schema: t.StructType,
        function: Callable[..., Iterator[pa.RecordBatch]],
        *arguments: object,
        files: pa.RecordBatch | None = None,
    ) -> DataFrame:
        """Return what a function yields for files in the schema of `NUMBERED_FILES`.

        The files, by default all, are split among tasks by size.
        """
        files = self.numbered() if files is None else files
        if not files.num_rows:
            return self.spark.createDataFrame([], schema)
        parts = [
            files.slice(run.start, len(run)).serialize().to_pybytes()
            for run in split_by_size(_sizes(files))
        ]
        task = named_task(name, _map_parts, parts, partial(function, *arguments))
        return self.spark.range(0, len(parts), 1, len(parts)).mapInArrow(task, schema)


def _batch(adds: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in adds.columns]
    return pa.RecordBatch.from_arrays(columns, schema=adds.schema)


def _sizes(files: pa.RecordBatch) -> np.ndarray:
    return files.column("size").fill_null(0).to_numpy(zero_copy_only=False)


def _map_parts(
    parts: Sequence[bytes],
    function: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from function(pa.ipc.read_record_batch(parts[number], NUMBERED_FILES))


def read_rows(
    read: RowRead, schema: t.StructType, files: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files in the schema of `NUMBERED_FILES`, with `FILE` and `ROW`."""

    def numbered() -> Iterator[pa.RecordBatch]:
        for number, batch in read.batches(files):
            column = from_numpy(np.full(batch.num_rows, number, np.int64))
            yield batch.add_column(batch.num_columns - 1, INDEX.with_name(FILE), column)

    return conform_batches(numbered(), schema)
