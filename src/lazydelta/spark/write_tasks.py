"""Tasks of a write: each writes data files and returns their add actions.

Spark accepts the result of one attempt of each task, so no commit references the files of failed
or speculative attempts.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from lazydelta._arrow import from_numpy
from lazydelta.errors import (
    ConstraintViolationError,
    DataFileError,
    DeletionVectorError,
    IdentityExhaustedError,
    SchemaError,
    SchemaMismatchError,
)
from lazydelta.operations import FileTask, WriteOperation, WriteRequest, WrittenRows
from lazydelta.schema import parse_schema, to_arrow_schema
from lazydelta.schema.evolution import nullable_schema
from lazydelta.schema.mapping import without_metadata
from lazydelta.spark.arrow_conversion import serialize_table
from lazydelta.spark.option_parsing import CATALOG_OPTIONS
from lazydelta.spark.serialized_snapshot import SerializedSnapshot, TableLocation
from lazydelta.spark.spark_releases import collation
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lazydelta.config import Config
    from lazydelta.operations import WriteResult

__all__ = [
    "RESULT",
    "PlannedWrite",
    "collect_results",
    "collect_tables",
    "concat",
    "incoming_schema",
    "single_threaded",
    "task_result",
    "write_rows",
]

RESULT = t.StructType(
    [
        t.StructField("adds", t.BinaryType()),
        t.StructField("rows", t.LongType()),
        t.StructField("error", t.BinaryType()),
    ]
)
"""Result of a task: the adds of its files as an Arrow IPC stream and the number of their rows, or
the pickled error about rows that the table refuses."""
_ABOUT_ROWS = (
    IdentityExhaustedError,
    ConstraintViolationError,
    DataFileError,
    DeletionVectorError,
    SchemaError,
    SchemaMismatchError,
)


@dataclass(frozen=True, kw_only=True)
class PlannedWrite:
    """A write that can be pickled: planned in one process, written in others, committed in one.

    It holds no store and no secret, and its size does not grow with the table.
    """

    location: TableLocation
    request: WriteRequest
    base: SerializedSnapshot | None
    """The version of the plan; None if there was no table."""
    task: FileTask

    @classmethod
    def of(
        cls, writing: WriteOperation, request: WriteRequest, location: TableLocation
    ) -> PlannedWrite:
        """Return the serializable part of a planned write."""
        base = writing.snapshot
        saved = None if base is None else SerializedSnapshot.of(base, location.options_file)
        return cls(location=location, request=request, base=saved, task=writing.task())

    @property
    def is_only_append(self) -> bool:
        """Whether it only appends rows, so that a write without rows needs no commit."""
        base, after = self.base, self.task.enforcement
        return (
            base is not None
            and self.request.mode == "append"
            and (after.protocol, after.metadata) == (base.protocol, base.metadata)
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenRows:
        """Write the rows of one task."""
        return self.task(batches, self.location.open())

    def commit(self, written: WrittenRows) -> WriteResult | None:
        """Commit the files of all tasks; None if the table has this application transaction."""
        store = self.location.open()
        snapshot = None if self.base is None else self.base.open(store)
        writing = WriteOperation(
            store, self.location.config, self.request, snapshot, self.task.enforcement
        )
        if writing.is_applied():
            return None
        return writing.finish(written, writing.replacement())


def incoming_schema(schema: t.StructType, where: str) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's rows with every column nullable.

    Nullability of a DataFrame is derived from its query, not intended for the table; Delta on
    Spark ignores it too.

    Raises:
        SchemaError: A type that Delta does not have.
    """
    _refuse_collations(schema, "")
    parsed = nullable_schema(parse_schema(schema.json(), where=where))
    return to_arrow_schema(without_metadata(parsed, lambda key: key == CATALOG_OPTIONS))


def single_threaded(request: WriteRequest, config: Config) -> WriteRequest:
    """Return the request for a task: it writes one file at a time unless the caller sets more."""
    options = request.options or config.write
    if options.files_at_once is None:
        options = replace(options, files_at_once=1)
    return replace(request, options=options)


def write_rows(
    planned: PlannedWrite, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task, and yield its result; a task without rows has none.

    Columns correspond by position: their names may differ from the plan.
    """
    names = planned.task.input_columns

    def write() -> tuple[pa.Table, int]:
        written = planned.write(batch.rename_columns(names) for batch in batches)
        return written.adds, written.rows

    yield from task_result(write)


def task_result(work: Callable[[], tuple[pa.Table, int]]) -> Iterator[pa.RecordBatch]:
    """Yield the result of a task: a table of actions and a number of rows; none without rows.

    An error about rows or files is a result too: a retry would fail on the same ones, and the
    caller receives the typed error. Errors of the store are raised, so that Spark retries the task.
    """
    try:
        actions, rows = work()
    except _ABOUT_ROWS as error:
        yield _result(b"", 0, pickle.dumps(error))
    else:
        if rows:
            yield _result(serialize_table(actions), rows, None)


def _result(adds: bytes, rows: int, error: bytes | None) -> pa.RecordBatch:
    columns = [
        pa.array([adds], pa.binary()),
        from_numpy(np.array([rows], np.int64)),
        pa.array([error], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=RESULT.names)


def collect_results(results: pa.Table) -> WrittenRows:
    """Return the files of all tasks of a job.

    Raises:
        ConstraintViolationError: Rows violate a constraint of the table.
        SchemaMismatchError: A value does not fit its column.
        SchemaError: A value cannot be stored in the log.
    """
    tables, rows = collect_tables(results)
    return WrittenRows(concat(ADDS, tables), rows)


def collect_tables(results: pa.Table) -> tuple[list[pa.Table], int]:
    """Return the actions of all tasks of a job, and the number of their rows.

    Raises:
        DeltaError: That of a task.
    """
    tables, counts, errors = (results.column(name).to_pylist() for name in RESULT.names)
    for error in filter(None, errors):
        raise pickle.loads(error)  # noqa: S301 - pickled by our own tasks
    return [pa.ipc.open_stream(table).read_all() for table in tables], sum(counts)


def concat(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.Table:
    """Return tables with a schema as one, in contiguous columns."""
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()


def _refuse_collations(kind: t.DataType, path: str) -> None:
    match kind:
        case t.StructType():
            for part in kind:
                _refuse_collations(part.dataType, f"{path}.{part.name}" if path else part.name)
        case t.ArrayType():
            _refuse_collations(kind.elementType, f"{path}.element")
        case t.MapType():
            _refuse_collations(kind.keyType, f"{path}.key")
            _refuse_collations(kind.valueType, f"{path}.value")
        case t.StringType() if (name := collation(kind)) is not None:
            raise SchemaError(
                f"column {path!r}: strings with the collation {name} cannot be written; "
                "cast the column to STRING COLLATE UTF8_BINARY"
            )
