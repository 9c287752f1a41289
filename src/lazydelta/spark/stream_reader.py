"""`spark.readStream.format("lazydelta")`: appended rows of a table, each exactly once.

Spark requests the start offset, the end offset of the next batch and the input partitions between
two offsets, and stores offsets in the query's checkpoint. All of them are derived from the log
alone and deterministic, so a retried batch has the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import (
    ConfigError,
    StreamSchemaError,
    TimestampNotFoundError,
    VersionNotCommittedError,
)
from lazydelta.log import earliest_version, list_log
from lazydelta.snapshot import find_segment, version_since
from lazydelta.spark.arrow_conversion import conform_batches
from lazydelta.spark.package_shipping import Packed
from lazydelta.spark.source_options import LATEST, SourceOptions
from lazydelta.spark.spark_releases import DataSourceStreamReader
from lazydelta.spark.stream_batches import Budget, StreamReads
from lazydelta.spark.stream_offsets import Offset
from lazydelta.spark.worker_errors import one_line_errors, reports_typed_errors

try:
    from pyspark.sql.streaming import datasource as admission
except ImportError:  # before PySpark 4.2
    admission = None  # type: ignore[assignment]
_AvailableNow: Any = object if admission is None else admission.SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import types as t

    from lazydelta.errors import DeltaError
    from lazydelta.spark.serialized_snapshot import SerializedSnapshot
    from lazydelta.spark.spark_releases import InputPartition

__all__ = ["FailedStream", "table_stream"]

_FILES_PER_TRIGGER = 1000
"""The default of Delta on Spark."""


def table_stream(
    options: SourceOptions, pinned: SerializedSnapshot, schema: t.StructType
) -> DataSourceStreamReader:
    """Return a stream of a table's appended rows, or of its changes.

    Args:
        options: The options of the stream.
        pinned: The version whose schema the rows have.
        schema: The Spark schema of the rows.

    Raises:
        ConfigError: A limit that this PySpark does not support, or a stream of changes without a
            start.
    """
    starts = (options.starting_version, options.starting_timestamp)
    if options.read_change_feed and starts == (None, None):
        reason = "a stream of changes requires it (`latest` is allowed), or startingTimestamp"
        raise ConfigError("startingVersion", reason)
    if admission is not None:
        return _LimitedStream(options, pinned, schema)
    if (options.max_files_per_trigger, options.max_bytes_per_trigger) != (None, None):
        reason = "requires PySpark 4.2 or newer; older releases do not limit batches"
        raise ConfigError("maxFilesPerTrigger", reason)
    return _UnlimitedStream(options, pinned, schema)


class FailedStream(DataSourceStreamReader):
    """Reader of a stream that cannot start: every method raises the reason.

    PySpark hides an error that leaves `DataSource.streamReader` behind an `UnboundLocalError`.
    """

    def __init__(self, error: DeltaError) -> None:
        self._error = error

    @reports_typed_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raise the error; a new query starts here."""
        raise self._error

    @reports_typed_errors
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Raise the error; a restarted query may start here."""
        raise self._error

    @reports_typed_errors
    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the error; a restarted query may start here."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raise the error."""
        raise self._error


class _Stream(Packed, DataSourceStreamReader):
    """Common part of the streams; subclasses decide where a batch ends."""

    def __init__(
        self, options: SourceOptions, pinned: SerializedSnapshot, schema: t.StructType
    ) -> None:
        self._options = options
        self._pinned = pinned
        self._schema = schema
        self._reads = StreamReads(options=options, pinned=pinned)

    @reports_typed_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start offset of a new query."""
        return self._first().to_json()

    @reports_typed_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the input partitions between two offsets."""
        first, last = self._parsed(start), self._parsed(end)
        if first.has_other_start(last):
            first = last.beginning
        return self._reads.plan(first, last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an input partition."""
        with one_line_errors():
            yield from conform_batches(self._reads.read(partition), self._schema)

    def _first(self) -> Offset:
        options, table = self._options, self._pinned.metadata.id
        store, config = self._pinned.location.open(), self._pinned.location.config
        newest = self._newest()
        version = options.starting_version
        if options.starting_timestamp is not None:
            try:
                version = version_since(store, config, options.starting_timestamp)
            except TimestampNotFoundError as error:
                if error.kind != "before-table":
                    raise
                version = 0
        if version is None:
            return Offset.first(table, newest, snapshot=True)
        if version > newest:
            earliest = earliest_version(list_log(store))
            raise VersionNotCommittedError(store.root, version, earliest, newest)
        return Offset.first(table, newest + 1 if version == LATEST else version, snapshot=False)

    def _newest(self) -> int:
        segment, _ = find_segment(self._pinned.location.open(), self._pinned.location.config)
        return segment.version

    def _parsed(self, offset: dict[str, Any]) -> Offset:
        parsed = Offset.parse(offset)
        if parsed.table != self._pinned.metadata.id:
            reason = "it is not the table of the streaming checkpoint: the table ids differ"
            raise StreamSchemaError(self._pinned.location.root, parsed.version, reason)
        return parsed


class _UnlimitedStream(_Stream):
    """A stream for PySpark before 4.2, which does not limit batches.

    These releases request the latest offset before the start offset, and do not say which queries
    are new.
    """

    _began: Offset | None = None

    def _first(self) -> Offset:
        if self._began is None:
            self._began = super()._first()
        return self._began

    @reports_typed_errors
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return the offset after the latest commit."""
        table = self._pinned.metadata.id
        if self._began is None and self._options.starting_timestamp is None:
            first = self._first()  # later commits belong to the next batch
            if first.snapshot:
                return Offset(table=table, version=first.version + 1).to_json()
        return Offset(table=table, version=self._newest() + 1).to_json()

    @reports_typed_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the input partitions; a first batch is the version before its end offset."""
        first, last = self._parsed(start), self._parsed(end)
        if first.snapshot and last.version <= first.version:  # a retry in a new process
            first = Offset.first(first.table, last.version - 1, snapshot=True)
        return self._reads.plan(first, last)


class _LimitedStream(_Stream, _AvailableNow):  # type: ignore[misc]
    """A stream with limited batches and the trigger `availableNow`."""

    _until: int | None = None

    @reports_typed_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop at the current latest version."""
        self._until = self._newest()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit of a batch; `latestOffset` applies both limits."""
        files, size = self._limits()
        if files is None and size is not None:
            return admission.ReadMaxBytes(size)
        return admission.ReadMaxFiles(files or _FILES_PER_TRIGGER)

    @reports_typed_errors
    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """Return the end offset of the next batch: its start if there is no new commit."""
        files, size = self._limits()
        if isinstance(limit, admission.ReadAllAvailable):
            files = size = None
        budget = Budget(files=files, bytes=size)
        return self._reads.advance(self._parsed(start), budget, until=self._until).to_json()

    def _limits(self) -> tuple[int | None, int | None]:
        files, size = self._options.max_files_per_trigger, self._options.max_bytes_per_trigger
        return (_FILES_PER_TRIGGER if files is None and size is None else files), size
