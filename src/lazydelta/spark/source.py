"""`format("lazydelta")`: tables and change feeds as a Python data source, tables as a sink.

Spark calls a data source in several processes: one returns the schema, one plans, many read. The
version is fixed when Spark requests the schema, so schema and rows agree whatever is committed
meanwhile. What Spark serializes between them is bounded and holds no secret.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import types as t

from lazydelta.changes import CHANGE_FIELDS, RequestedRange
from lazydelta.config import Config
from lazydelta.errors import ConfigError, DeltaError
from lazydelta.expressions import as_predicate
from lazydelta.snapshot import SnapshotState, load_snapshot, version_at
from lazydelta.spark.arrow_conversion import conform_batches, described_schema
from lazydelta.spark.changes import ChangesRead
from lazydelta.spark.conf import DEFAULTS, ReplaySettings
from lazydelta.spark.option_parsing import CATALOG_OPTIONS, is_catalog_table, without_properties
from lazydelta.spark.package_shipping import Packed, packed
from lazydelta.spark.serialized_snapshot import SerializedSnapshot, TableLocation
from lazydelta.spark.sink import BatchSink, StreamSink
from lazydelta.spark.sink_options import SinkOptions
from lazydelta.spark.source_options import LATEST, SourceOptions
from lazydelta.spark.spark_releases import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from lazydelta.spark.stream_reader import FailedStream, table_stream
from lazydelta.spark.tasks import SnapshotRead
from lazydelta.spark.worker_errors import one_line_errors, reports_typed_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
__all__ = ["LazyDeltaSource", "source_named"]


class LazyDeltaSource(Packed, DataSource):
    """A Delta table; `SourceOptions` and `SinkOptions` have the options."""

    _pinned: SerializedSnapshot | None = None

    def __init__(
        self,
        options: dict[str, str],
        options_file: str | None = None,
        replay: ReplaySettings = DEFAULTS,
    ) -> None:
        super().__init__(options)
        self._options_file = options_file
        self._replay = replay

    @reports_typed_errors
    def schema(self) -> t.StructType:
        """Return the schema of the rows, and fix the version."""
        schema = self._schema(self._parse(self.options))
        return _with_options(schema, self.options) if is_catalog_table(self.options) else schema

    @reports_typed_errors
    def reader(self, schema: t.StructType) -> DataSourceReader:
        """Return the reader of one query."""
        options = self._parse(_options_of(self.options, schema))
        options.refuse_stream_options()
        self._validate(schema, options)
        return _Reader(_read(options, self._snapshot(options)), schema)

    def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream."""
        try:
            options = self._parse(_options_of(self.options, schema))
            options.refuse_batch_options()
            self._validate(schema, options)
            return table_stream(options, self._snapshot(options), schema)
        except DeltaError as error:
            return FailedStream(error)

    @reports_typed_errors
    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of one batch write."""
        options = SinkOptions.parse(_options_of(self.options, schema), self._options_file)
        return BatchSink(options, schema, overwrite=overwrite)

    @reports_typed_errors
    def streamWriter(self, schema: t.StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Return the writer of one batch of a stream."""
        options = SinkOptions.parse(_options_of(self.options, schema), self._options_file)
        return StreamSink(options, schema, overwrite=overwrite)

    def _parse(self, options: Mapping[str, str]) -> SourceOptions:
        return SourceOptions.parse(options).with_defaults(self._options_file, self._replay)

    def _schema(self, options: SourceOptions) -> t.StructType:
        snapshot = self._snapshot(options).open()
        extra = CHANGE_FIELDS if options.read_change_feed else ()
        return described_schema(snapshot, options.columns, extra)

    def _snapshot(self, options: SourceOptions) -> SerializedSnapshot:
        """Return the version of the read; Spark pickles it with this object."""
        if self._pinned is None:
            self._pinned = SerializedSnapshot.of(
                _load_snapshot(options), options.storage_options_file
            )
        return self._pinned

    def _validate(self, schema: t.StructType, options: SourceOptions) -> None:
        """Refuse a schema of the caller, or of the catalog, that is not the table's."""
        expected = self._schema(options).simpleString()
        if schema.simpleString() != expected:
            reason = (
                f"the table's is {expected}; omit it and use the option columns. "
                "If the table changed since CREATE TABLE or attach, repeat that, or use "
                "lazydelta.spark.sql."
            )
            raise ConfigError("schema", reason)


def source_named(
    name: str = "lazydelta", file: str | None = None, replay: ReplaySettings = DEFAULTS
) -> type[DataSource]:
    """Return the format as a class that Spark pickles by value, with the settings of a session.

    Its processes import this package when they use it, and report one line if they lack it.

    Args:
        name: The name of the format.
        file: Default of the option `storageOptionsFile`.
        replay: Thresholds of the planner, because Spark's planning process has no session.
    """
    build = packed(partial(LazyDeltaSource, options_file=file, replay=replay))

    class Source(DataSource):  # pickled by value: it may use nothing of this module
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options
            self.source = build()(options)

        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> t.StructType:
            return self.source.schema()

        def reader(self, schema: t.StructType) -> DataSourceReader:
            return self.source.reader(schema)

        def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:  # noqa: N802
            return self.source.streamReader(schema)

        def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceWriter:
            return self.source.writer(schema, overwrite)

        def streamWriter(  # noqa: N802
            self, schema: t.StructType, overwrite: bool
        ) -> DataSourceStreamWriter:
            return self.source.streamWriter(schema, overwrite)

    return Source


# --- tables of Spark's catalog --------------------------------------------------------------------


def _with_options(schema: t.StructType, options: Mapping[str, str]) -> t.StructType:
    """Return a schema for Spark's catalog with the options in the metadata of every field.

    Spark calls the source without options when it reads a catalog table, but with the schema that
    `CREATE TABLE` stored, metadata included.
    """
    stored = {CATALOG_OPTIONS: json.dumps(dict(without_properties(options)))}
    return t.StructType(
        [t.StructField(f.name, f.dataType, f.nullable, {**f.metadata, **stored}) for f in schema]
    )


def _options_of(options: Mapping[str, str], schema: t.StructType) -> Mapping[str, str]:
    """Return the options of a query; those of a catalog table come from its schema."""
    if "path" in options:
        return options
    stored = [f.metadata[CATALOG_OPTIONS] for f in schema if CATALOG_OPTIONS in f.metadata]
    return {**json.loads(stored[0]), **options} if stored else options


class _Reader(Packed, DataSourceReader):
    """Reader of one query: planned in one process, then pickled for those that read."""

    def __init__(self, read: SnapshotRead | ChangesRead, schema: t.StructType) -> None:
        self._read = read
        self._schema = schema

    @reports_typed_errors
    def partitions(self) -> Sequence[InputPartition]:
        """Return the input partitions."""
        return self._read.plan()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an input partition."""
        with one_line_errors():
            yield from conform_batches(self._read.read(partition), self._schema)


def _read(options: SourceOptions, pinned: SerializedSnapshot) -> SnapshotRead | ChangesRead:
    where = as_predicate(options.where)
    if not options.read_change_feed:
        read = SnapshotRead(
            snapshot=pinned,
            columns=options.columns,
            where=where,
            tasks=options.num_partitions,
            settings=options.replay,
        )
        _ = read.scan  # validates columns and predicate
        return read
    if options.starting_version == LATEST:
        raise ConfigError("startingVersion", "latest is for streams; give a version")
    requested = RequestedRange(
        starting_version=options.starting_version,
        starting_timestamp=options.starting_timestamp,
        ending_version=pinned.version,
    )
    return ChangesRead.find(pinned.location, requested, columns=options.columns, where=where)


def _load_snapshot(options: SourceOptions) -> SnapshotState:
    location = TableLocation(
        root=options.path,
        config=Config.from_env(),
        options_file=options.storage_options_file,
        credential=options.credential,
    )
    store, version = location.open(), options.version_as_of
    time = options.timestamp_as_of
    if options.read_change_feed:
        version, time = options.ending_version, options.ending_timestamp
    if time is not None:
        version = version_at(store, location.config, time)
    return load_snapshot(store, location.config, version=version)
