"""`spark.readStream.format("lazydelta")`: a table's rows as they are appended, each once.

Spark asks where to begin, how far the next batch may go, and what lies in between; it keeps the
places in the query's checkpoint. All of it is answered from the log alone, and the same question
always gets the same answer, so a batch that is tried again has the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from lazydelta.errors import (
    ConfigError,
    StreamSchemaError,
    TimestampNotFoundError,
    VersionNotCommittedError,
)
from lazydelta.log import earliest_version, list_log
from lazydelta.snapshot import find_segment, version_since
from lazydelta.spark.arrow_rows import for_spark
from lazydelta.spark.offsets import Offset
from lazydelta.spark.options import LATEST, SourceOptions
from lazydelta.spark.stream_tasks import Budget, StreamReads

try:
    from pyspark.sql.streaming import datasource as admission
except ImportError:  # before PySpark 4.2
    admission = None  # type: ignore[assignment]
_AvailableNow: Any = object if admission is None else admission.SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import types as t
    from pyspark.sql.datasource import InputPartition

    from lazydelta.spark.shipped import ShippedSnapshot

__all__ = ["table_stream"]

_FILES_PER_TRIGGER = 1000
"""What Delta's own streams take, unless they are told otherwise."""


def table_stream(
    options: SourceOptions, pinned: ShippedSnapshot, schema: t.StructType
) -> DataSourceStreamReader:
    """Return a stream of a table's appended rows, or of its changes.

    Args:
        options: What was asked for.
        pinned: The version whose schema the rows have.
        schema: The columns of the rows, as Spark has them.

    Raises:
        ConfigError: A limit is asked for that this PySpark cannot keep, or a stream of changes
            without a start.
    """
    starts = (options.starting_version, options.starting_timestamp)
    if options.read_change_feed and starts == (None, None):
        reason = "a stream of changes needs it (latest will do), or startingTimestamp"
        raise ConfigError("startingVersion", reason)
    if admission is not None:
        return _LimitedStream(options, pinned, schema)
    if (options.max_files_per_trigger, options.max_bytes_per_trigger) != (None, None):
        reason = "needs PySpark 4.2 or newer; with older ones a batch is all there is"
        raise ConfigError("maxFilesPerTrigger", reason)
    return _UnlimitedStream(options, pinned, schema)


class _Stream(DataSourceStreamReader):
    """What every stream of a table does; how far a batch goes is said by those below."""

    def __init__(
        self, options: SourceOptions, pinned: ShippedSnapshot, schema: t.StructType
    ) -> None:
        self._options = options
        self._pinned = pinned
        self._schema = schema
        self._reads = StreamReads(options=options, pinned=pinned)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins."""
        return self._first().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what lies between two places."""
        first, last = self._parsed(start), self._parsed(end)
        if first.is_of_another_start(last):
            first = last.beginning
        return self._reads.plan(first, last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        return for_spark(self._reads.read(partition), self._schema)

    def _first(self) -> Offset:
        options, table = self._options, self._pinned.metadata.id
        store, config = self._pinned.address.open(), self._pinned.address.config
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
        segment, _ = find_segment(self._pinned.address.open(), self._pinned.address.config)
        return segment.version

    def _parsed(self, offset: dict[str, Any]) -> Offset:
        found = Offset.parse(offset)
        if found.table != self._pinned.metadata.id:
            reason = "it is another table than the one that the checkpoint is of"
            raise StreamSchemaError(self._pinned.address.root, found.version, reason)
        return found


class _UnlimitedStream(_Stream):
    """A stream for PySpark before 4.2: a batch is all there is.

    There Spark asks how far the table has got first, and only then where a new query begins; and
    it never tells which of its queries are new.
    """

    _began: Offset | None = None

    def _first(self) -> Offset:
        if self._began is None:
            self._began = super()._first()
        return self._began

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return the place after the newest commit."""
        table = self._pinned.metadata.id
        if self._began is None and self._options.starting_timestamp is None:
            first = self._first()  # what comes later than this belongs to the next batch
            if first.snapshot:
                return Offset(table=table, version=first.version + 1).to_json()
        return Offset(table=table, version=self._newest() + 1).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what lies between two places; a first batch is the version before its end."""
        first, last = self._parsed(start), self._parsed(end)
        if first.snapshot and last.version <= first.version:  # it is repeated, in another process
            first = Offset.first(first.table, last.version - 1, snapshot=True)
        return self._reads.plan(first, last)


class _LimitedStream(_Stream, _AvailableNow):  # type: ignore[misc]
    """A stream whose batches are limited in size, and that can end where the table now does."""

    _until: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than the newest commit of this moment."""
        self._until = self._newest()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return what a batch takes; `latestOffset` looks at both limits."""
        files, size = self._limits()
        if files is None and size is not None:
            return admission.ReadMaxBytes(size)
        return admission.ReadMaxFiles(files or _FILES_PER_TRIGGER)

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch: its start, if there is nothing new."""
        files, size = self._limits()
        if isinstance(limit, admission.ReadAllAvailable):
            files = size = None
        budget = Budget(files=files, bytes=size)
        return self._reads.advance(self._parsed(start), budget, until=self._until).to_json()

    def _limits(self) -> tuple[int | None, int | None]:
        files, size = self._options.max_files_per_trigger, self._options.max_bytes_per_trigger
        return (_FILES_PER_TRIGGER if files is None and size is None else files), size
