"""`df.write.format("lazydelta")` and `df.writeStream`: tables as a Python data sink.

Spark calls a sink in processes of its own: one plans, many write, one commits. A task answers with
the adds of its files, and Spark hands the answer of one attempt of each task to the commit.

A stream commits each batch with its number, so a batch that is done again after a crash is found
in the table and added only once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from lazydelta.errors import ConfigError, InternalError
from lazydelta.operations import WriteResult, plan_write
from lazydelta.spark.shipped import Address
from lazydelta.spark.write_tasks import PlannedWrite, as_stream, incoming_schema, total

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import types as t

    from lazydelta.operations import WriteRequest
    from lazydelta.spark.sink_options import SinkOptions

__all__ = ["BatchSink", "StreamSink"]

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class Report(WriterCommitMessage):
    """What a task wrote: the adds of its files as an Arrow stream, and how many rows."""

    adds: bytes
    rows: int


@dataclass(frozen=True)
class StreamReport(Report):
    """The same, and what the commit cannot know otherwise: it plans nothing itself."""

    planned: PlannedWrite
    query_id: str | None


class BatchSink(DataSourceArrowWriter):
    """One write: planned in one process, then sent to those that do and commit it."""

    def __init__(self, options: SinkOptions, schema: t.StructType, *, overwrite: bool) -> None:
        self._planned = _plan(options, schema, options.request(overwrite=overwrite))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        if self._planned is None:
            return Report(b"", 0)
        written = self._planned.write(iterator)
        return Report(as_stream(written.adds), written.rows)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks as one version."""
        if self._planned is not None:
            _commit(self._planned, _reports(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Change nothing: no version names the files, and vacuum finds them.

        Spark calls this after a failed `transaction` too, whose outcome may be unknown; to delete the
        files could take them from a version that names them.
        """
        logger.warning("a write was given up; files of %d tasks are left behind", len(messages))


class StreamSink(DataSourceStreamArrowWriter):
    """The batches of a stream; Spark makes one of these to write a batch, and one to commit it."""

    def __init__(self, options: SinkOptions, schema: t.StructType, *, overwrite: bool) -> None:
        options.refuse_batch_options()
        self._app_id = options.txn_app_id
        # Which batch it will be is not known yet, so the table cannot be asked for it yet.
        request = replace(options, txn_app_id=None).request(overwrite=overwrite)
        self._planned = _plan(options, schema, request)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task of one batch."""
        if self._planned is None:
            raise InternalError("a stream was planned as a step that the table has")
        written = self._planned.write(iterator)
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        return StreamReport(as_stream(written.adds), written.rows, self._planned, query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch, unless the table has it already."""
        reports = [one for one in _reports(messages) if isinstance(one, StreamReport)]
        if not reports:
            return  # a batch of nothing
        first = reports[0]
        if not any(report.rows for report in reports) and first.planned.is_only_append:
            return
        app_id = self._app_id or first.query_id
        if app_id is None:
            raise ConfigError("txnAppId", "Spark does not tell the id of this query; give a name")
        request = replace(first.planned.request, app_id=app_id, app_version=batchId)
        _commit(replace(first.planned, request=request), reports)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Change nothing, for the reasons that `BatchSink.abort` has."""
        logger.warning(
            "batch %d was given up; files of %d tasks are left behind", batchId, len(messages)
        )


def _plan(options: SinkOptions, schema: t.StructType, request: WriteRequest) -> PlannedWrite | None:
    """Return the write, planned on the newest version; None if there is nothing to do."""
    address = options.address()
    store = address.open()
    writing = plan_write(store, address.config, incoming_schema(schema, store.root), request)
    if isinstance(writing, WriteResult):
        return None
    address = Address.of(store, address.config, address.options_file)
    return PlannedWrite.of(writing, request, address)


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[Report]:
    found = [message for message in messages if isinstance(message, Report)]
    if len(found) < len(messages):
        raise InternalError(f"{len(messages) - len(found)} tasks did not say what they wrote")
    return found


def _commit(planned: PlannedWrite, reports: Sequence[Report]) -> None:
    written = total((report.adds, report.rows) for report in reports if report.rows)
    result = planned.commit(written)
    if result is None or result.already_applied:
        step = f"{planned.request.app_id!r}, step {planned.request.app_version}"
        logger.warning("%s has %s already: nothing was added", planned.address.root, step)
        return
    for warning in result.warnings:
        logger.warning("%s, version %d: %s", planned.address.root, result.version, warning)
