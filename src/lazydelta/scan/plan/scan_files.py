"""Planned files as the public API returns them: Arrow batches, and `ScanFile` for one row.

Only iterating over `Scan.files()` creates Python objects. Columns are converted a batch at a time,
on first access.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.protocol.schemas import DELETION_VECTOR
from lazydelta.replay.skipping import map_values
from lazydelta.scan.plan.add_columns import nulls
from lazydelta.schema import DataType, PrimitiveType
from lazydelta.schema.values import build_array, parse_partition_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.protocol.paths import PathResolver

__all__ = ["DeletionVector", "FileBatches", "ScanFile"]

_VECTOR_NAMES = {
    "storageType": "storage_type",
    "pathOrInlineDv": "path_or_inline_dv",
    "offset": "offset",
    "sizeInBytes": "size_in_bytes",
    "cardinality": "cardinality",
}
_VECTOR = pa.struct([(_VECTOR_NAMES[field.name], field.type) for field in DELETION_VECTOR])
_NAMES = {
    "path": "path",
    "size": "size",
    "modificationTime": "modification_time",
    "partitionValues": "partition_values",
    "deletionVector": "deletion_vector",
    "stats": "stats",
    "tags": "tags",
    "baseRowId": "base_row_id",
    "defaultRowCommitVersion": "default_row_commit_version",
    "clusteringProvider": "clustering_provider",
    "numRecords": "num_records",
    "version": "version",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = pa.timestamp("ms", "UTC")
_STRING = PrimitiveType("string")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVector:
    """Descriptor of a deletion vector: its storage, and the number of deleted rows."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int


class FileBatches:
    """Converts add actions to batches of planned files.

    Args:
        resolver: Decodes paths and builds URIs.
        partition_types: Type of each partition column, by logical name.
        logical_names: Logical names of the partition columns, by physical name.
    """

    def __init__(
        self,
        resolver: PathResolver,
        partition_types: Mapping[str, DataType],
        logical_names: Mapping[str, str],
    ) -> None:
        self.resolver = resolver
        self.partition_types = partition_types
        self.physical_names = {logical: physical for physical, logical in logical_names.items()}
        renamed = {p: n for p, n in logical_names.items() if p != n}
        self._renamed = (list(renamed), list(renamed.values())) if renamed else None

    def convert(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with snake-case names, decoded paths and logical partition names."""
        columns: dict[str, pa.Array] = {}
        for name, array in zip(adds.schema.names, adds.columns, strict=True):
            columns[_NAMES[name]] = array
        columns["path"] = self.resolver.decoded(columns["path"])
        columns["modification_time"] = columns["modification_time"].view(_MILLISECONDS)
        columns["deletion_vector"] = _rename_fields(columns["deletion_vector"])
        columns["partition_values"] = self._logical_partition_names(columns["partition_values"])
        return pa.RecordBatch.from_pydict(columns)

    def _logical_partition_names(self, values: pa.MapArray) -> pa.MapArray:
        if self._renamed is None:
            return values
        physical, logical = (build_array(names, _STRING) for names in self._renamed)
        keys = values.keys
        named = logical.take(pc.index_in(keys, physical))
        return pa.MapArray.from_arrays(
            values.offsets, pc.coalesce(named, keys), values.items, mask=_null_mask(values)
        )


def _rename_fields(vectors: pa.StructArray) -> pa.StructArray:
    """Return the vectors with snake-case names; a cast matches by name and would lose values."""
    if vectors.null_count == len(vectors):
        return nulls(len(vectors), _VECTOR)
    children = [vectors.field(index) for index in range(_VECTOR.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(_VECTOR), mask=vectors.is_null())


def _null_mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count and values.offset == 0 else None


class ScanFile:
    """One planned file: a row of a batch. Fields are decoded on access."""

    __slots__ = ("_batch", "_row")

    def __init__(self, batch: FileColumns, row: int) -> None:
        self._batch = batch
        self._row = row

    @property
    def path(self) -> str:
        """The path in the log, percent-decoded once."""
        return self._batch.paths[self._row]

    @property
    def uri(self) -> str:
        """The absolute URI."""
        return self._batch.uris[self._row]

    @property
    def raw_path(self) -> str:
        """The path exactly as in the log."""
        return self._batch.raw_paths[self._row]

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._batch.column("size")[self._row]

    @property
    def modification_time(self) -> datetime | None:
        """When the file was written, in UTC; None if the log has no valid time."""
        return self._batch.modification_times[self._row]

    @property
    def partition_values(self) -> dict[str, Any]:
        """Typed partition values by column."""
        return self._batch.partition_values[self._row]

    @property
    def raw_partition_values(self) -> dict[str, str | None]:
        """Partition values as the strings of the log, by logical column name."""
        return dict(self._batch.column("partition_values")[self._row] or ())

    @property
    def deletion_vector(self) -> DeletionVector | None:
        """The deletion vector, or None if no row of the file is deleted."""
        fields = self._batch.column("deletion_vector")[self._row]
        return None if fields is None else DeletionVector(**fields)

    @property
    def num_records(self) -> int | None:
        """Rows in the file, including deleted ones; None if the log has no count."""
        return self._batch.column("num_records")[self._row]

    @property
    def stats(self) -> dict[str, Any] | None:
        """The statistics as in the log, by physical column name."""
        stats = self._batch.column("stats")[self._row]
        try:
            return None if stats is None else orjson.loads(stats)
        except orjson.JSONDecodeError:
            return None

    @property
    def tags(self) -> dict[str, str | None]:
        """Free-form tags of the file."""
        return dict(self._batch.column("tags")[self._row] or ())

    @property
    def base_row_id(self) -> int | None:
        """Row id of the file's first row, on tables with row tracking."""
        return self._batch.column("base_row_id")[self._row]

    @property
    def default_row_commit_version(self) -> int | None:
        """Default commit version of the file's rows, on tables with row tracking."""
        return self._batch.column("default_row_commit_version")[self._row]

    @property
    def clustering_provider(self) -> str | None:
        """The clustering implementation of the file."""
        return self._batch.column("clustering_provider")[self._row]

    @property
    def version(self) -> int | None:
        """The version of the commit with the add; None if it was read from a checkpoint."""
        return self._batch.column("version")[self._row]

    def __repr__(self) -> str:
        return f"ScanFile(path={self.path!r}, size={self.size})"


class FileColumns:
    """A batch of planned files; columns become Python lists on first access."""

    def __init__(self, batch: pa.RecordBatch, raw_paths: pa.Array, converter: FileBatches) -> None:
        self._batch = batch
        self._raw = raw_paths
        self._converter = converter
        self._lists: dict[str, Sequence[Any]] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def column(self, name: str) -> Sequence[Any]:
        """Return a column as a list."""
        values = self._lists.get(name)
        if values is None:
            values = self._lists[name] = self._batch.column(name).to_pylist()
        return values

    @cached_property
    def paths(self) -> list[str]:
        """Decoded paths."""
        return list(self.column("path"))

    @cached_property
    def raw_paths(self) -> list[str]:
        """Paths as in the log."""
        return list(self._raw.to_pylist())

    @cached_property
    def modification_times(self) -> list[datetime | None]:
        """When each file was written."""
        return list(
            map(_to_datetime, self._batch.column("modification_time").view("int64").to_pylist())
        )

    @cached_property
    def uris(self) -> list[str]:
        """Absolute URIs."""
        return list(self._converter.resolver.uris(self._raw).to_pylist())

    @cached_property
    def partition_values(self) -> list[dict[str, Any]]:
        """Typed partition values of each file."""
        values = self._batch.column("partition_values")
        columns = {}
        for name, kind in self._converter.partition_types.items():
            strings = map_values(values, name)
            columns[name] = parse_partition_values(strings, kind).to_pylist()
        names = list(columns)
        if not names:
            return [{} for _ in range(len(self))]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _to_datetime(milliseconds: int | None) -> datetime | None:
    try:
        return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
