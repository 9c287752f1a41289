"""Rows read on executors by the reader of this package, which reads every table.

The files are a list made by the driver, or a DataFrame that is never collected. Tasks call
`scan.read_files`, so the rows are those of a scan in one process: deletion vectors, column mapping,
type widening and the predicate are applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.protocol.schemas import ADD
from lazydelta.spark.arrow_conversion import conform_batches, row_size
from lazydelta.spark.jobs import named_task
from lazydelta.spark.planner import split_by_size, task_numbers
from lazydelta.spark.spark_releases import map_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as t

    from lazydelta.spark.tasks import SnapshotRead

__all__ = ["FILE_FIELDS", "read_file_frame", "read_file_list"]

FILE_FIELDS = pa.schema(
    [ADD.field(n) for n in ("path", "size", "partitionValues", "deletionVector")]
)
"""Fields of an add action that the reader needs."""


def read_file_list(
    spark: SparkSession, read: SnapshotRead, files: pa.RecordBatch, schema: t.StructType
) -> DataFrame:
    """Return the rows of listed files, split among tasks by size.

    Args:
        spark: The session.
        read: The read.
        files: The files, with the fields of `FILE_FIELDS`.
        schema: Of the rows.
    """
    if not files.num_rows:
        return spark.createDataFrame([], schema)
    sizes = files.column("size").fill_null(0).to_numpy(zero_copy_only=False)
    parts = [
        files.slice(run.start, len(run)).serialize().to_pybytes() for run in split_by_size(sizes)
    ]
    rows = int(sizes.sum()) // row_size(schema)
    numbers = task_numbers(spark, len(parts), rows)
    return map_rows(numbers, named_task("read_rows", _read_parts, read, schema, parts), schema)


def read_file_frame(
    files: DataFrame, read: SnapshotRead, schema: t.StructType, *, tasks: int
) -> DataFrame:
    """Return the rows of files that executors find.

    Files are distributed by a hash of their path, not round-robin: a task that is retried must
    find the same files again, in whatever order they arrive.

    Args:
        files: The files, with the fields of `FILE_FIELDS`.
        read: The read.
        schema: Of the rows.
        tasks: Number of tasks.
    """
    spread = files.select(*FILE_FIELDS.names).repartition(tasks, "path")
    return map_rows(spread, named_task("read_rows", _read_files, read, schema), schema)


def _read_parts(
    read: SnapshotRead,
    schema: t.StructType,
    parts: Sequence[bytes],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        files = [
            pa.ipc.read_record_batch(parts[number], FILE_FIELDS)
            for number in batch.column(0).to_pylist()
        ]
        yield from conform_batches(read.rows(files), schema)


def _read_files(
    read: SnapshotRead, schema: t.StructType, files: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    adds = (batch.cast(FILE_FIELDS) for batch in files)
    yield from conform_batches(read.rows(adds), schema)
