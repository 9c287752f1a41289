"""Rows read by Spark's vectorized Parquet scan, where table and file allow it.

Spark gets the list of files and their physical schema; nothing is inferred from directories. Files
with the same partition values are one scan, in which the values are literals: a later filter on
them prunes whole scans. `spark.arrow_reader` reads what Spark would read differently from
`scan.read_files`, or not at all.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta._arrow import from_numpy
from lazydelta.errors import DataFileNotFoundError
from lazydelta.scan.plan import partition_strings
from lazydelta.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from lazydelta.schema.mapping import physical_name, to_physical
from lazydelta.schema.values import parse_partition_values
from lazydelta.spark.column_functions import literal, quoted, value_type
from lazydelta.spark.conf import is_connect, is_true
from lazydelta.spark.hadoop import cannot_open_reason, hadoop_root
from lazydelta.spark.native_errors import report_damaged_files
from lazydelta.spark.spark_releases import error_condition
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import Column, DataFrame, SparkSession

    from lazydelta.snapshot import SnapshotState

__all__ = [
    "NativeScan",
    "unsupported_files",
    "unsupported_reason",
]

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LISTING_LOCK = threading.Lock()
_OPTIONS = {
    "__globPaths__": "false",  # paths may contain brackets and stars
    "recursiveFileLookup": "true",  # no partition discovery
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_TYPE_CHANGES, _COLLATIONS = "delta.typeChanges", "__COLLATIONS"
_OWN_READER_TYPES = ("variant", "void", "null")


def _stored_fields(snapshot: SnapshotState, names: Sequence[str]) -> tuple[StructField, ...]:
    """Return the columns to read from the files: those requested, and at least one."""
    stored = [f for f in snapshot.schema if f.name not in snapshot.partition_columns]
    requested = [f for f in stored if f.name in names]
    return tuple(requested or stored[:1])


def unsupported_reason(
    spark: SparkSession, snapshot: SnapshotState, names: Sequence[str]
) -> str | None:
    """Return why Spark's scan cannot read these columns of a table; None if it can."""
    mode = snapshot.column_mapping_mode
    if mode == "id":
        return "column mapping mode is id"
    if mode == "none" and is_true(spark, "spark.sql.caseSensitive"):
        return "the session is case-sensitive, and column names in files need not match in case"
    if is_true(spark, "spark.sql.parquet.int96TimestampConversion"):
        return "the session shifts INT96 timestamps of some writers to its time zone"
    fields = _stored_fields(snapshot, names)
    if not fields:
        return "it has only partition columns"
    for field in fields:
        reason = _unsupported_field(field)
        if reason is not None:
            return f"column {field.name!r} {reason}"
    return cannot_open_reason(spark, snapshot)


def _unsupported_field(field: StructField) -> str | None:
    if _TYPE_CHANGES in field.metadata:
        return "has a changed type"
    if _COLLATIONS in field.metadata:  # a file's schema has none, so Spark would compare bytes
        return "has a collation"
    return _unsupported_type(field.type)


def _unsupported_type(kind: DataType) -> str | None:
    match kind:
        case StructType():
            reasons = [_unsupported_field(part) for part in kind]
            return next((reason for reason in reasons if reason is not None), None)
        case ArrayType(element, _):
            return _unsupported_type(element)
        case MapType(key, value, _):
            return _unsupported_type(key) or _unsupported_type(value)
        case PrimitiveType(name) if name in _OWN_READER_TYPES:
            return f"is of type {name}"
    return None


def unsupported_files(snapshot: SnapshotState, files: pa.RecordBatch) -> pa.BooleanArray:
    """Return which files Spark's scan cannot read.

    These are files with a deletion vector, files outside of the table's root, and files with a
    name that Hadoop hides or cannot parse.

    Raises:
        PathNotAllowedError: The log references a file outside of the allowed roots.
    """
    # A Python loop is fine: the driver lists few files.
    places = [snapshot.resolver.to_open(path) for path in files.column("path").to_pylist()]
    unreadable = np.array(
        [p.store_root is not None or _is_hidden(p.path) for p in places], np.bool_
    )
    deleted = files.column("deletionVector").is_valid().to_numpy(zero_copy_only=False)
    return pa.array(unreadable | deleted)


def _is_hidden(path: str) -> bool:
    """Whether Spark silently ignores the file as hidden, or cannot open it."""
    name = path.rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_") or ":" in path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Files with the same partition values."""

    values: dict[str, Any]
    paths: list[str]


@dataclass(frozen=True, kw_only=True)
class NativeScan:
    """Files that Spark's scan reads, and the requested columns."""

    snapshot: SnapshotState
    groups: tuple[_Group, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: SnapshotState, files: pa.RecordBatch, names: Sequence[str]) -> NativeScan:
        """Group files by the partition values of the requested columns.

        Raises:
            LogCorruptError: A file has no partition values in the log.
            SchemaError: A partition value does not fit the type of its column.
        """
        root = hadoop_root(snapshot.store)
        to_open = snapshot.resolver.to_open
        paths = [f"{root}/{to_open(path).path}" for path in files.column("path").to_pylist()]
        partition_fields = [
            field
            for field in snapshot.schema
            if field.name in snapshot.partition_columns and field.name in names
        ]
        if not partition_fields or not paths:
            groups = [_Group(values={}, paths=paths)] if paths else []
            return cls(snapshot=snapshot, groups=tuple(groups), names=tuple(names))
        strings = partition_strings(snapshot, files.column("partitionValues"), names).values()
        keys = [str(index) for index in range(len(partition_fields))]
        table = pa.table([*strings, from_numpy(np.arange(len(paths)))], [*keys, "index"])
        grouped = table.group_by(keys, use_threads=False).aggregate([("index", "list")])
        values = [
            _plain(parse_partition_values(grouped.column(key).combine_chunks(), field.type))
            for key, field in zip(keys, partition_fields, strict=True)
        ]
        fields = [field.name for field in partition_fields]
        rows = zip(grouped.column("index_list").to_pylist(), *values, strict=True)
        groups = [
            _Group(values=dict(zip(fields, some, strict=True)), paths=[paths[n] for n in indices])
            for indices, *some in rows
        ]
        return cls(snapshot=snapshot, groups=tuple(groups), names=tuple(names))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the rows with the columns `names`, in this order.

        Raises:
            DataFileNotFoundError: A data file is missing.
        """
        stored = _stored_fields(self.snapshot, self.names)
        physical = to_physical(StructType(stored), self.snapshot.column_mapping_mode)
        schema = t.StructType([t.StructField(p.name, value_type(p.type)) for p in physical])
        is_stored = physical == StructType(stored) and physical.names == self.names
        root = hadoop_root(self.snapshot.store) or ""
        report_damaged_files(root, self.snapshot.store.root, connect=is_connect(spark))
        reader = spark.read.format("parquet").schema(schema).options(**_OPTIONS)
        frames = []
        with self._listing(spark):
            try:
                for group in self.groups:
                    scan = reader.load(group.paths)
                    if not is_stored:  # each column of a `select` takes 20 calls of the JVM
                        scan = scan.select(*(self._column(n, group) for n in self.names))
                    frames.append(scan)
                united = reduce(lambda a, b: a.unionAll(b), frames)
                _ = united.schema  # Spark Connect looks for the files here, and keeps the plan
            except AnalysisException as error:
                raise self._missing(error) from None
        return united

    def _listing(self, spark: SparkSession) -> AbstractContextManager[None]:
        # On an object store each file is a request: Spark's tasks send them side by side.
        return _listing_in_driver(spark) if is_local(self.snapshot.store) else nullcontext()

    def _column(self, name: str, group: _Group) -> Column:
        field = next(field for field in self.snapshot.schema if field.name == name)
        if name in group.values:
            return literal(group.values[name], field.type).alias(name)
        mode = self.snapshot.column_mapping_mode
        stored = f.col(quoted(physical_name(field, mode)))
        (inside,) = to_physical(StructType((field,)), mode)
        if inside.type != field.type:  # the same fields in the same order, with physical names
            stored = stored.cast(value_type(field.type))
        return stored.alias(name)

    def _missing(self, error: AnalysisException) -> Exception:
        if error_condition(error) != "PATH_NOT_FOUND":
            return error
        url = (error.getMessageParameters() or {}).get("path", "")
        root = (hadoop_root(self.snapshot.store) or "").removeprefix("file://")
        path = url.removeprefix("file:").removeprefix(f"{root}/")
        return DataFileNotFoundError(self.snapshot.store.root, path, self.snapshot.version)


def _plain(values: pa.Array) -> list[Any]:
    """Return values in the form of `literal`: days and microseconds since the epoch."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values.to_pylist()


@contextmanager
def _listing_in_driver(spark: SparkSession) -> Iterator[None]:
    """Let Spark list the files in the driver.

    The default is a job with a task for each file, which takes ten times as long. There is no
    option for it, only a session setting, which is restored.
    """
    if is_connect(spark):  # files are listed when a query runs; the list is short
        yield
        return
    with _LISTING_LOCK:
        before = spark.conf.get(_LISTING)
        spark.conf.set(_LISTING, str(2**31 - 1))
        try:
            yield
        finally:
            if before is not None:
                spark.conf.set(_LISTING, before)
