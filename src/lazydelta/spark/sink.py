"""`df.write.format("lazydelta")` and `df.writeStream`: tables as a Python data sink.

Spark calls a sink in several processes: one plans, many write, one commits. A task returns the
adds of its files, and Spark passes the result of one attempt of each task to the commit.

The commit of a streaming batch records the batch id as a `txn` action, so a batch that Spark
repeats after a crash is found in the table and added only once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from lazydelta.errors import ConfigError, InternalError, SchemaMismatchError
from lazydelta.operations import WriteResult, WrittenRows, plan_write
from lazydelta.spark.arrow_conversion import serialize_table
from lazydelta.spark.package_shipping import Packed
from lazydelta.spark.serialized_snapshot import TableLocation
from lazydelta.spark.spark_releases import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from lazydelta.spark.worker_errors import reports_typed_errors
from lazydelta.spark.write_tasks import PlannedWrite, concat, incoming_schema
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import types as t

    from lazydelta.operations import WriteRequest
    from lazydelta.spark.sink_options import SinkOptions

__all__ = ["BatchSink", "StreamSink"]

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class TaskResult(WriterCommitMessage):
    """Result of a task: the adds of its files as an Arrow IPC stream, and the number of rows."""

    adds: bytes
    rows: int


@dataclass(frozen=True)
class StreamTaskResult(TaskResult):
    """`TaskResult` with the plan: Spark commits by a new sink, which must not plan again."""

    planned: PlannedWrite
    query_id: str | None


class BatchSink(Packed, DataSourceArrowWriter):
    """One write: planned in one process, then pickled for those that write and commit."""

    @reports_typed_errors
    def __init__(self, options: SinkOptions, schema: t.StructType, *, overwrite: bool) -> None:
        self._planned = _plan(options, schema, options.request(overwrite=overwrite))

    @reports_typed_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        if self._planned is None:
            return TaskResult(b"", 0)
        written = self._planned.write(iterator)
        return TaskResult(serialize_table(written.adds), written.rows)

    @reports_typed_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks as one version."""
        if self._planned is not None:
            _commit(self._planned, _results(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete nothing: no version references the files, and vacuum removes them.

        Spark also calls this after a failed `transaction`, which may have succeeded; deleting would
        then remove files that a version references.
        """
        logger.warning("write aborted; vacuum removes the files of %d tasks", len(messages))


class StreamSink(Packed, DataSourceStreamArrowWriter):
    """Batches of a stream; Spark creates one sink to write a batch and another to commit it."""

    @reports_typed_errors
    def __init__(self, options: SinkOptions, schema: t.StructType, *, overwrite: bool) -> None:
        options.refuse_batch_options()
        self._app_id = options.txn_app_id
        # The batch id is unknown until `transaction`, so the plan cannot look for it in the table.
        request = replace(options, txn_app_id=None).request(overwrite=overwrite)
        self._planned = _plan(options, schema, request)

    @reports_typed_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task of one batch."""
        if self._planned is None:
            raise InternalError("a stream was planned as an applied transaction")
        written = self._planned.write(iterator)
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        return StreamTaskResult(serialize_table(written.adds), written.rows, self._planned, query)

    @reports_typed_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch, unless the table has it already."""
        results = [one for one in _results(messages) if isinstance(one, StreamTaskResult)]
        if not results:
            return  # an empty batch
        first = results[0]
        if not any(result.rows for result in results) and first.planned.is_only_append:
            return
        app_id = self._app_id or first.query_id
        if app_id is None:
            raise ConfigError("txnAppId", "is required: Spark does not expose the id of this query")
        request = replace(first.planned.request, app_id=app_id, app_version=batchId)
        _commit(replace(first.planned, request=request), results)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete nothing; see `BatchSink.abort`."""
        logger.warning(
            "batch %d aborted; vacuum removes the files of %d tasks", batchId, len(messages)
        )


def _plan(options: SinkOptions, schema: t.StructType, request: WriteRequest) -> PlannedWrite | None:
    """Return the write, planned on the latest version; None if it is already applied."""
    location = options.location()
    store = location.open()
    try:
        writing = plan_write(store, location.config, incoming_schema(schema, store.root), request)
    except SchemaMismatchError as error:
        cure = error.cure.replace('schema_mode="merge"', "The option mergeSchema=true")
        raise replace(error, cure=cure) from None
    if isinstance(writing, WriteResult):
        return None
    location = TableLocation.of(store, location.config, location.options_file)
    return PlannedWrite.of(writing, request, location)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    results = [message for message in messages if isinstance(message, TaskResult)]
    if len(results) < len(messages):
        raise InternalError(f"{len(messages) - len(results)} tasks returned no result")
    return results


def _commit(planned: PlannedWrite, results: Sequence[TaskResult]) -> None:
    tables = [pa.ipc.open_stream(result.adds).read_all() for result in results if result.rows]
    rows = sum(result.rows for result in results)
    result = planned.commit(WrittenRows(concat(ADDS, tables), rows))
    if result is None or result.already_applied:
        txn = f"transaction {planned.request.app_version} of {planned.request.app_id!r}"
        logger.warning("%s: %s is already applied", planned.location.root, txn)
        return
    for warning in result.warnings:
        logger.warning("%s, version %d: %s", planned.location.root, result.version, warning)
