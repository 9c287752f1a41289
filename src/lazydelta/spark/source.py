"""`format("lazydelta")`: tables and change feeds as a Python data source, tables as a sink.

Spark calls it in processes of its own: one asks for the schema, one plans, many read. The version
is fixed when the schema is asked for, so that schema and rows agree whatever is committed
meanwhile. Everything that travels between them is bounded and holds no secret.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)

from lazydelta.changes import RequestedRange
from lazydelta.config import Config
from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.expr import as_predicate
from lazydelta.snapshot import Snapshot, load_snapshot, version_at
from lazydelta.spark.arrow_rows import for_spark, shown_schema
from lazydelta.spark.changes import CHANGE_FIELDS, ChangesRead
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.filters import to_predicate
from lazydelta.spark.options import LATEST, SourceOptions
from lazydelta.spark.shipped import Address, ShippedSnapshot
from lazydelta.spark.sink import BatchSink, StreamSink
from lazydelta.spark.sink_options import SinkOptions
from lazydelta.spark.stream import table_stream
from lazydelta.spark.tasks import SnapshotRead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql import types as t

__all__ = ["FilteringSource", "LazyDeltaSource", "register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, filter_pushdown: bool = False) -> None:
    """Make `lazydelta` a format of a session: `spark.read.format("lazydelta").load(url)`.

    The option `where` prunes files, row groups and rows, whatever is done with the DataFrame.

    Args:
        spark: A session, classic or Spark Connect; its executors must have lazydelta installed.
            Where its `spark.lazydelta.storageOptionsFile` is set by now, that file has the storage
            options of tables that are loaded without the option `storageOptionsFile`.
        filter_pushdown: Whether filters of a query prune as well; this then also sets
            `spark.sql.python.filterPushdown.enabled`. Safe only where every `load()` serves one
            query with one filter: Spark 4.1 and 4.2 keep the filters that they offer with the
            DataFrame, and use those of one query for the next one, and for other branches of the
            same one, which then lack rows.
    """
    if filter_pushdown:
        spark.conf.set(_PUSHDOWN, "true")
    source = FilteringSource if filter_pushdown else LazyDeltaSource
    spark.dataSource.register(_with_options_file(source, storage_options_file(spark)))


class LazyDeltaSource(DataSource):
    """A Delta table; `SourceOptions` has what can be asked of it."""

    pushes_filters = False
    options_file: str | None = None
    """Where storage options are, unless an option says otherwise."""
    _shipped: ShippedSnapshot | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lazydelta"

    def schema(self) -> t.StructType:
        """Return the schema of the rows, and fix the version that they are of."""
        options = self._parsed()
        pinned = self._pinned(options).open()
        more = CHANGE_FIELDS if options.read_change_feed else ()
        names = (*pinned.schema.names, *(field.name for field in more))
        for name in options.columns or ():
            if name not in names:
                raise ColumnNotFoundError("", options.path, name, names)
        return shown_schema(pinned, options.columns, more)

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """Return what plans and reads."""
        options = self._parsed()
        options.refuse_stream_options()
        self._check(schema)
        reader = _FilteringReader if self.pushes_filters else _Reader
        return reader(_read(options, self._pinned(options)), schema)

    def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return what follows the table."""
        options = self._parsed()
        options.refuse_batch_options()
        self._check(schema)
        return table_stream(options, self._pinned(options), schema)

    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceWriter:
        """Return what plans, does and commits one write."""
        options = SinkOptions.parse(self.options, self.options_file)
        return BatchSink(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: t.StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Return what plans, does and commits one batch of a stream."""
        options = SinkOptions.parse(self.options, self.options_file)
        return StreamSink(options, schema, overwrite=overwrite)

    def _parsed(self) -> SourceOptions:
        found = SourceOptions.parse(self.options)
        file = found.storage_options_file or self.options_file
        return replace(found, storage_options_file=file)

    def _pinned(self, options: SourceOptions) -> ShippedSnapshot:
        """Return the version that is read; the same one in every process."""
        if self._shipped is None:
            self._shipped = ShippedSnapshot.of(_snapshot(options), options.storage_options_file)
        return self._shipped

    def _check(self, schema: t.StructType) -> None:
        """Refuse a schema of the caller's that is not the table's."""
        expected = self.schema().simpleString()
        if schema.simpleString() != expected:
            reason = f"the table's is {expected}; leave it out, and choose with the option columns"
            raise ConfigError("schema", reason)


class FilteringSource(LazyDeltaSource):
    """The same, pruning by the filters that Spark offers."""

    pushes_filters = True


def _with_options_file(source: type[LazyDeltaSource], file: str | None) -> type[LazyDeltaSource]:
    """Return a source that knows the file; a class made here travels with what it knows."""
    return source if file is None else type(source.__name__, (source,), {"options_file": file})


class _Reader(DataSourceReader):
    """One read: planned in one process, then sent to those that do it."""

    def __init__(self, read: SnapshotRead | ChangesRead, schema: t.StructType) -> None:
        self._read = read
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return what there is to read."""
        return self._read.plan()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        return for_spark(self._read.read(partition), self._schema)


class _FilteringReader(_Reader):
    """A read that leaves out what the query would drop."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use the filters to prune, and leave every one of them to Spark as well."""
        found = to_predicate(filters, self._schema, self._read.filterable)
        if found is not None:
            asked = self._read.where
            self._read = replace(self._read, where=found if asked is None else asked & found)
        return filters


def _read(options: SourceOptions, pinned: ShippedSnapshot) -> SnapshotRead | ChangesRead:
    where = as_predicate(options.where)
    if not options.read_change_feed:
        read = SnapshotRead(
            shipped=pinned, columns=options.columns, where=where, tasks=options.num_partitions
        )
        _ = read.scan  # what does not fit the table fails now
        return read
    if options.starting_version == LATEST:
        raise ConfigError("startingVersion", "latest is for streams; give a version")
    asked = RequestedRange(
        start_version=options.starting_version,
        start_timestamp=options.starting_timestamp,
        end_version=pinned.version,
    )
    return ChangesRead.find(pinned.address, asked, columns=options.columns, where=where)


def _snapshot(options: SourceOptions) -> Snapshot:
    address = Address(
        root=options.path, config=Config.from_env(), options_file=options.storage_options_file
    )
    store, version = address.open(), options.version_as_of
    time = options.timestamp_as_of
    if options.read_change_feed:
        version, time = options.ending_version, options.ending_timestamp
    if time is not None:
        version = version_at(store, address.config, time)
    return load_snapshot(store, address.config, version=version)
