"""Tasks that collect the positions of rows in bitmaps, one for each file and clause."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask
from lazydelta.spark.arrow_conversion import arrow_schema
from lazydelta.spark.dml.frame_columns import CLAUSE, FILE, POSITIONS, ROW
from lazydelta.spark.dml.target import RowRead
from lazydelta.spark.jobs import named_task
from lazydelta.spark.tuning import BUFFERED_POSITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from lazydelta.expressions import Predicate
    from lazydelta.spark.dml.target_candidates import Candidates

__all__ = ["find_positions", "is_member", "load_bitmap", "read_positions"]

_SCHEMA = arrow_schema(POSITIONS)


def find_positions(rows: DataFrame, num_tasks: int) -> DataFrame:
    """Return the positions of rows as `POSITIONS`, all of a file in one task; one shuffle.

    Bitmaps are built before the shuffle, so it moves kilobytes for each file and not a row for each
    position.

    Args:
        rows: Columns `FILE`, `ROW` and `CLAUSE`.
        num_tasks: Number of tasks of the result.
    """
    narrow = rows.select(FILE, ROW, CLAUSE)
    partial = narrow.mapInArrow(named_task("collect_positions", _collect), POSITIONS)
    return partial.repartition(num_tasks, "file").mapInArrow(
        named_task("unite_positions", _unite), POSITIONS
    )


def read_positions(target: Candidates, where: Predicate) -> DataFrame:
    """Return the positions of the rows of files that match, as `POSITIONS`; no shuffle.

    Args:
        target: The files.
        where: Evaluated by the reader of this package.
    """
    read = RowRead.of(target.spark, target.snapshot, (), where)
    return target.map_files("find_rows", POSITIONS, _find, read)


def _find(read: RowRead, files: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    from pyroaring import BitMap64

    found = _Bitmaps()
    for number, batch in read.batches(files):
        rows = batch.column(ROW).to_numpy().astype(np.uint64)
        found.add(number, 0, BitMap64(rows), 0)
    yield found.batch()


class _Bitmaps:
    """Bitmaps by file and clause, and the number of repeated rows of each file."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, dict[int, Any]] = {}
        self._repeated: dict[int, int] = {}

    def add(self, file: int, clause: int, bitmap: Any, repeated: int) -> None:
        clauses = self._bitmaps.setdefault(file, {})
        repeated += sum(bitmap.intersection_cardinality(known) for known in clauses.values())
        clauses[clause] = bitmap | clauses[clause] if clause in clauses else bitmap
        self._repeated[file] = self._repeated.get(file, 0) + repeated

    def batch(self) -> pa.RecordBatch:
        """Return the result, ordered by file and clause."""
        rows = []
        for file, clauses in sorted(self._bitmaps.items()):
            repeated = self._repeated[file]
            for clause, bitmap in sorted(clauses.items()):
                rows.append((file, clause, len(bitmap), repeated, bitmap.serialize()))
                repeated = 0  # it is of the file
        columns = zip(*rows, strict=True) if rows else [[]] * len(_SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _collect(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Collect the positions of a task; rows are buffered, since files may alternate."""
    found, buffered, count = _Bitmaps(), list[pa.RecordBatch](), 0
    for batch in batches:
        buffered.append(batch)
        count += batch.num_rows
        if count >= BUFFERED_POSITIONS:
            _add_rows(found, buffered)
            buffered, count = [], 0
    if count:
        _add_rows(found, buffered)
    yield found.batch()


def _add_rows(found: _Bitmaps, batches: list[pa.RecordBatch]) -> None:
    from pyroaring import BitMap64

    table = pa.Table.from_batches(batches)
    files, rows, clauses = (table.column(name).to_numpy() for name in (FILE, ROW, CLAUSE))
    order = np.lexsort((clauses, files))
    files, rows, clauses = files[order], rows[order].astype(np.uint64), clauses[order]
    starts = np.flatnonzero((np.diff(files) != 0) | (np.diff(clauses) != 0)) + 1
    for start, end in pairwise([0, *starts.tolist(), len(files)]):
        bitmap = BitMap64(rows[start:end])
        found.add(int(files[start]), int(clauses[start]), bitmap, end - start - len(bitmap))


def _unite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = _Bitmaps()
    for batch in batches:
        for file, clause, _, repeated, rows in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            found.add(file, clause, load_bitmap(rows), repeated)
    yield found.batch()


def load_bitmap(data: bytes) -> Any:
    """Return the bitmap of a row of `POSITIONS`."""
    from pyroaring import BitMap64

    return BitMap64.deserialize(data)


def is_member(bitmap: Any, rows: pa.Array) -> pa.BooleanArray:
    """Return which rows are in a bitmap."""
    positions = np.frombuffer(bitmap.to_array(), np.uint64).astype(np.int64)
    numbers = rows.to_numpy()
    at = np.searchsorted(positions, numbers)
    found = np.append(positions, -1)[at]  # no position is negative
    return from_mask(found == numbers)
