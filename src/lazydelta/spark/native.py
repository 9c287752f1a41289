"""Rows read by Spark's own vectorised Parquet scan, where table and file allow it.

Spark gets the exact files and the exact schema, under the names that the files use; nothing is
inferred from directories. Files with the same partition values are one scan, in which these are
constants: a filter on them, added whenever, drops whole scans before Spark starts any work. What
Spark would read otherwise than `scan.read_files`, or not at all, is left to `spark.arrow_path`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
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
from lazydelta.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_partition_values,
    physical_name,
    to_physical,
)
from lazydelta.spark.values import literal, value_type
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from lazydelta.snapshot import Snapshot

__all__ = ["NativeFiles", "file_obstacles", "is_connect", "native_fields", "table_obstacle"]

MOST_SCANS = 64
"""Each set of partition values is a scan of its own, which takes time to plan."""
MOST_CONNECT_FILES = 32
"""Through Spark Connect the setting for longer lists cannot be given for one read alone."""
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LISTING_LOCK = threading.Lock()
_OPTIONS = {
    "__globPaths__": "false",  # a name may have brackets and stars
    "recursiveFileLookup": "true",  # names of directories say nothing
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_TYPE_CHANGES = "delta.typeChanges"
_OWN_READER_TYPES = ("variant", "void", "null")


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def native_fields(snapshot: Snapshot, names: Sequence[str]) -> tuple[StructField, ...]:
    """Return the columns to read from files for some columns of the table; at least one."""
    stored = [f for f in snapshot.schema if f.name not in snapshot.partition_columns]
    wanted = [f for f in stored if f.name in names]
    return tuple(wanted or stored[:1])


def table_obstacle(spark: SparkSession, snapshot: Snapshot, names: Sequence[str]) -> str | None:
    """Return why Spark's own scan cannot read some columns of a table; None if it can."""
    mode = snapshot.column_mapping_mode
    if not is_local(snapshot.store):
        return "stock Spark cannot open its store"
    if mode == "id":
        return "its columns go by field ids"
    if mode == "none" and spark.conf.get("spark.sql.caseSensitive", "false") == "true":
        return "the session tells columns apart by case, which files need not do"
    fields = native_fields(snapshot, names)
    if not fields:
        return "it has no columns but those of partitions"
    for field in fields:
        reason = _field_obstacle(field)
        if reason is not None:
            return f"column {field.name!r} {reason}"
    return None


def _field_obstacle(field: StructField) -> str | None:
    if _TYPE_CHANGES in field.metadata:
        return "changed its type"
    return _type_obstacle(field.type)


def _type_obstacle(kind: DataType) -> str | None:
    match kind:
        case StructType():
            found = [_field_obstacle(part) for part in kind]
            return next((reason for reason in found if reason is not None), None)
        case ArrayType(element, _):
            return _type_obstacle(element)
        case MapType(key, value, _):
            return _type_obstacle(key) or _type_obstacle(value)
        case PrimitiveType(name) if name in _OWN_READER_TYPES:
            return f"is of type {name}"
    return None


def file_obstacles(snapshot: Snapshot, files: pa.RecordBatch) -> pa.BooleanArray:
    """Return which files Spark's own scan cannot read.

    Those with deleted rows, those outside the table, and those with names that Hadoop trips over.

    Raises:
        PathNotAllowedError: The log points out of the table's root.
    """
    # A loop, but over no more files than a list made in this process may have.
    places = [snapshot.resolver.to_open(path) for path in files.column("path").to_pylist()]
    odd = np.array([p.store_root is not None or _is_odd(p.path) for p in places], np.bool_)
    deleted = files.column("deletionVector").is_valid().to_numpy(zero_copy_only=False)
    return pa.array(odd | deleted)


def _is_odd(path: str) -> bool:
    """Whether Spark takes a file for hidden and leaves it out without a word, or cannot open it."""
    name = path.rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_") or ":" in path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Files with the same partition values."""

    values: dict[str, Any]
    paths: list[str]


@dataclass(frozen=True, kw_only=True)
class NativeFiles:
    """Files that Spark's own scan reads, and the columns of the table that are wanted of them."""

    snapshot: Snapshot
    groups: tuple[_Group, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, files: pa.RecordBatch, names: Sequence[str]) -> NativeFiles:
        """Sort files by the partition values that are wanted.

        Raises:
            LogCorruptError: The log has no partition values of a file.
            SchemaError: The log has a partition value that is not of the column's type.
        """
        paths = [_place(snapshot, path) for path in files.column("path").to_pylist()]
        wanted = [
            field
            for field in snapshot.schema
            if field.name in snapshot.partition_columns and field.name in names
        ]
        if not wanted or not paths:
            groups = [_Group(values={}, paths=paths)] if paths else []
            return cls(snapshot=snapshot, groups=tuple(groups), names=tuple(names))
        texts = partition_strings(snapshot, files.column("partitionValues"), names).values()
        keys = [str(at) for at in range(len(wanted))]
        table = pa.table([*texts, from_numpy(np.arange(len(paths)))], [*keys, "at"])
        found = table.group_by(keys, use_threads=False).aggregate([("at", "list")])
        values = [
            _plain(parse_partition_values(found.column(key).combine_chunks(), field.type))
            for key, field in zip(keys, wanted, strict=True)
        ]
        fields = [field.name for field in wanted]
        rows = zip(found.column("at_list").to_pylist(), *values, strict=True)
        groups = [
            _Group(values=dict(zip(fields, some, strict=True)), paths=[paths[n] for n in at])
            for at, *some in rows
        ]
        return cls(snapshot=snapshot, groups=tuple(groups), names=tuple(names))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the rows: the columns `names`, in this order.

        Raises:
            DataFileNotFoundError: A file of this version is gone.
        """
        stored = native_fields(self.snapshot, self.names)
        physical = to_physical(StructType(stored), self.snapshot.column_mapping_mode)
        schema = t.StructType([t.StructField(p.name, value_type(p.type)) for p in physical])
        reader = spark.read.format("parquet").schema(schema).options(**_OPTIONS)
        frames = []
        with _listed_at_once(spark):
            for group in self.groups:
                try:
                    scan = reader.load(group.paths)
                except AnalysisException as error:
                    raise self._missing(error) from None
                frames.append(scan.select(*(self._column(n, group) for n in self.names)))
        return reduce(lambda a, b: a.unionAll(b), frames)

    def _column(self, name: str, group: _Group) -> Column:
        field = next(field for field in self.snapshot.schema if field.name == name)
        if name in group.values:
            return literal(group.values[name], field.type).alias(name)
        mode = self.snapshot.column_mapping_mode
        stored = f.col(_quoted(physical_name(field, mode)))
        (inside,) = to_physical(StructType((field,)), mode)
        if inside.type != field.type:  # the same parts in the same order, under other names
            stored = stored.cast(value_type(field.type))
        return stored.alias(name)

    def _missing(self, error: AnalysisException) -> Exception:
        if error.getCondition() != "PATH_NOT_FOUND":
            return error
        found = (error.getMessageParameters() or {}).get("path", "")
        path = found.removeprefix("file:").removeprefix(f"{self.snapshot.store.root}/")
        return DataFileNotFoundError(self.snapshot.store.root, path, self.snapshot.version)


def _place(snapshot: Snapshot, path: str) -> str:
    return f"file://{snapshot.store.root.rstrip('/')}/{snapshot.resolver.to_open(path).path}"


def _plain(values: pa.Array) -> list[Any]:
    """Return values as `literal` takes them: dates as days, times as microseconds."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values.to_pylist()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _listed_at_once(spark: SparkSession) -> Iterator[None]:
    """Have Spark look at the files in this process.

    It would start a job with a task for each file, which takes ten times as long. There is no
    option for it, only a setting of the session, so that is put back.
    """
    if is_connect(spark):  # files are looked at when a query runs; the list is short
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
