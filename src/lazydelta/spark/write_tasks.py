"""What the tasks of a write do: rows become files, and a task reports the adds of its files.

A report is part of the task's result. Spark takes the result of one attempt of each task, so the
files of failed and of speculative attempts are named by nobody: they are never in the table.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from lazydelta._arrow import from_numpy
from lazydelta.errors import ConstraintViolationError, SchemaError, SchemaMismatchError
from lazydelta.operations import FileTask, WriteRequest, Writing, WrittenRows
from lazydelta.schema import ArrayType, MapType, StructType, parse_schema, to_arrow_schema
from lazydelta.spark.shipped import Address, ShippedSnapshot
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lazydelta.config import Config
    from lazydelta.operations import WriteResult
    from lazydelta.schema import DataType, StructField

__all__ = [
    "REPORT",
    "PlannedWrite",
    "as_stream",
    "collected",
    "in_one_thread",
    "incoming_schema",
    "total",
    "write_rows",
]

REPORT = t.StructType(
    [
        t.StructField("adds", t.BinaryType()),
        t.StructField("rows", t.LongType()),
        t.StructField("refusal", t.BinaryType()),
    ]
)
"""What a task tells of the rows it wrote: the adds of its files as an Arrow stream, how many rows
they hold, or the error that says which rows the table does not take."""


@dataclass(frozen=True, kw_only=True)
class PlannedWrite:
    """A write on its way through the processes of Spark: planned in one, committed in another.

    No store and no secret is part of it, and nothing that grows with the table.
    """

    address: Address
    request: WriteRequest
    base: ShippedSnapshot | None
    """The version that it was planned on; None if there was no table."""
    task: FileTask

    @classmethod
    def of(cls, writing: Writing, request: WriteRequest, address: Address) -> PlannedWrite:
        """Return what travels of a write.

        Args:
            writing: As it was planned here.
            request: What it was planned for.
            address: Where others open the table.
        """
        base = writing.snapshot
        shipped = None if base is None else ShippedSnapshot.of(base, address.options_file)
        return cls(address=address, request=request, base=shipped, task=writing.task())

    @property
    def is_only_append(self) -> bool:
        """Whether it adds rows and nothing else, so that without any it is nothing."""
        base, after = self.base, self.task.intake
        return (
            base is not None
            and self.request.mode == "append"
            and (after.protocol, after.metadata) == (base.protocol, base.metadata)
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenRows:
        """Write the rows of one task."""
        return self.task(batches, self.address.open())

    def commit(self, written: WrittenRows) -> WriteResult | None:
        """Commit the files of all tasks; None if this step of the application is in the table."""
        store = self.address.open()
        snapshot = None if self.base is None else self.base.open(store)
        writing = Writing(store, self.address.config, self.request, snapshot, self.task.intake)
        if writing.is_applied():
            return None
        return writing.finish(written, writing.replaced())


def incoming_schema(schema: t.StructType, where: str) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's rows, every column of which may be null.

    Whether Spark believes that a column has no nulls says nothing about the table's wish, and
    Spark's own writers of Delta pass it over too.

    Raises:
        SchemaError: A type that Delta does not have.
    """
    _refuse_collations(schema, "")
    return to_arrow_schema(_nullable(parse_schema(schema.json(), where=where)))


def in_one_thread(request: WriteRequest, config: Config) -> WriteRequest:
    """Return the request for a task, which has one core unless the caller says otherwise."""
    options = request.options or config.write
    if options.files_at_once is None:
        options = replace(options, files_at_once=1)
    return replace(request, options=options)


def write_rows(
    planned: PlannedWrite, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task, and yield its report; one without rows has nothing to tell.

    Columns are told by their places: batches may come under other names than were planned for.
    """
    names = list(planned.task.intake.given)
    try:
        written = planned.write(batch.rename_columns(names) for batch in batches)
    except (ConstraintViolationError, SchemaError, SchemaMismatchError) as error:
        # Another attempt would find the same rows, and the caller should get this very error.
        yield _report(b"", 0, pickle.dumps(error))
    else:
        if written.rows:
            yield _report(as_stream(written.adds), written.rows, None)


def _report(adds: bytes, rows: int, refusal: bytes | None) -> pa.RecordBatch:
    columns = [
        pa.array([adds], pa.binary()),
        from_numpy(np.array([rows], np.int64)),
        pa.array([refusal], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=REPORT.names)


def collected(reports: pa.Table) -> WrittenRows:
    """Return what the tasks of a job wrote.

    Raises:
        ConstraintViolationError: A task found rows that break a rule of the table.
        SchemaMismatchError: A task found a value that has no place in its column.
        SchemaError: A task found a value that the log cannot hold.
    """
    adds, rows, refusals = (reports.column(name).to_pylist() for name in REPORT.names)
    for refusal in filter(None, refusals):
        raise pickle.loads(refusal)  # noqa: S301 - of this job's own tasks
    return total(zip(adds, rows, strict=True))


def total(reports: Iterable[tuple[bytes, int]]) -> WrittenRows:
    """Return what all tasks wrote."""
    tables, rows = [ADDS.empty_table()], 0
    for adds, count in reports:
        tables.append(pa.ipc.open_stream(adds).read_all())
        rows += count
    return WrittenRows(pa.concat_tables(tables).combine_chunks(), rows)


def as_stream(adds: pa.Table) -> bytes:
    """Return adds as bytes, exactly as they are."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, adds.schema) as writer:
        writer.write_table(adds)
    return sink.getvalue().to_pybytes()


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
        case t.StringType() if not kind.isUTF8BinaryCollation():
            raise SchemaError(
                f"column {path!r}: texts with the collation {kind.collation} cannot be written; "
                "cast the column to STRING COLLATE UTF8_BINARY"
            )


def _nullable(schema: StructType) -> StructType:
    return StructType(tuple(_nullable_field(part) for part in schema))


def _nullable_field(part: StructField) -> StructField:
    return replace(part, type=_nullable_type(part.type), nullable=True)


def _nullable_type(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return _nullable(kind)
        case ArrayType(element, _):
            return ArrayType(_nullable_type(element), contains_null=True)
        case MapType(key, value, _):
            return MapType(_nullable_type(key), _nullable_type(value), value_contains_null=True)
        case _:
            return kind
