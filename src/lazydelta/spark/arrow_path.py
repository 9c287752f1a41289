"""Rows read in executors by this package's own reader: the path that every table can take.

The files come as a list that was made here, where they are few, or as a DataFrame, which stays
one. What becomes of a file in a task is what becomes of it in this process (`scan.read_files`), so
the rows are the same: deleted rows gone, names mapped, types widened, the predicate applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.protocol import ADD
from lazydelta.spark.arrow_rows import for_spark
from lazydelta.spark.jobs import named
from lazydelta.spark.tasks import share_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as t

    from lazydelta.spark.tasks import SnapshotRead

__all__ = ["FILES", "read_found", "read_listed", "tasks_for"]

FILES = pa.schema([ADD.field(n) for n in ("path", "size", "partitionValues", "deletionVector")])
"""What the reader needs to know of a file."""
_TASKS = 32
"""Enough for a small cluster; more files are cut by size anyway."""
_FILES_PER_TASK, _MOST_TASKS = 64, 2000


def read_listed(
    spark: SparkSession, read: SnapshotRead, files: pa.RecordBatch, schema: t.StructType
) -> DataFrame:
    """Return the rows of some files, shared out by size; each task knows its own by a number.

    Args:
        spark: The session.
        read: What to read of the files.
        files: The files, with the fields of `FILES`.
        schema: Of the rows.
    """
    if not files.num_rows:
        return spark.createDataFrame([], schema)
    sizes = files.column("size").fill_null(0).to_numpy(zero_copy_only=False)
    parts = [
        files.slice(run.start, len(run)).serialize().to_pybytes()
        for run in share_out(sizes, _TASKS)
    ]
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(named("read_rows", _read_parts, read, schema, parts), schema)


def read_found(
    files: DataFrame, read: SnapshotRead, schema: t.StructType, *, tasks: int
) -> DataFrame:
    """Return the rows of files that executors find; the list of them never is in one place.

    Files go to tasks by their paths, not in turns: a task that is repeated after a loss must find
    the same files again, whatever order they came in.

    Args:
        files: The files, with the fields of `FILES`.
        read: What to read of them.
        schema: Of the rows.
        tasks: How many tasks read.
    """
    spread = files.select(*FILES.names).repartition(tasks, "path")
    return spread.mapInArrow(named("read_rows", _read_files, read, schema), schema)


def tasks_for(estimated_files: int, least: int) -> int:
    """Return how many tasks read a table whose files nobody has listed."""
    return max(least, min(estimated_files // _FILES_PER_TASK, _MOST_TASKS))


def _read_parts(
    read: SnapshotRead,
    schema: t.StructType,
    parts: Sequence[bytes],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        mine = [
            pa.ipc.read_record_batch(parts[number], FILES) for number in batch.column(0).to_pylist()
        ]
        yield from for_spark(read.rows(mine), schema)


def _read_files(
    read: SnapshotRead, schema: t.StructType, files: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    adds = (batch.cast(FILES) for batch in files)
    yield from for_spark(read.rows(adds), schema)
