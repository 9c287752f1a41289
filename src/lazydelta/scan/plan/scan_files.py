"""Planned files as callers see them: batches with plain names, and a view of one row for people.

The only place where a file becomes a Python object, and only when somebody iterates over files;
even then columns are converted a batch at a time, and those nobody looks at not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import string_scalar
from lazydelta.protocol.schemas import DELETION_VECTOR
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
    """Where the deleted rows of a file are listed, and how many there are."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int


class FileBatches:
    """Turns adds, as the log has them, into batches of planned files.

    Args:
        resolver: Decodes paths and makes addresses.
        partition_types: Type of each partition column, by logical name.
        logical_names: Logical by physical name of the partition columns.
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

    def planned(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with plain names, decoded paths and logical partition names."""
        columns: dict[str, pa.Array] = {}
        for name, array in zip(adds.schema.names, adds.columns, strict=True):
            columns[_NAMES[name]] = array
        columns["path"] = self.resolver.decoded(columns["path"])
        columns["modification_time"] = columns["modification_time"].view(_MILLISECONDS)
        columns["deletion_vector"] = _renamed(columns["deletion_vector"])
        columns["partition_values"] = self._logical(columns["partition_values"])
        return pa.RecordBatch.from_pydict(columns)

    def _logical(self, values: pa.MapArray) -> pa.MapArray:
        if self._renamed is None:
            return values
        physical, logical = (build_array(names, _STRING) for names in self._renamed)
        keys = values.keys
        named = logical.take(pc.index_in(keys, physical))
        return pa.MapArray.from_arrays(
            values.offsets, pc.coalesce(named, keys), values.items, mask=_nulls(values)
        )


def _renamed(vectors: pa.StructArray) -> pa.StructArray:
    """Return the vectors with plain names; a cast goes by name and would lose their values."""
    if vectors.null_count == len(vectors):
        return nulls(len(vectors), _VECTOR)
    children = [vectors.field(index) for index in range(_VECTOR.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(_VECTOR), mask=vectors.is_null())


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count and values.offset == 0 else None


class ScanFile:
    """One planned file: a row of a batch, read when asked."""

    __slots__ = ("_batch", "_row")

    def __init__(self, batch: FileColumns, row: int) -> None:
        self._batch = batch
        self._row = row

    @property
    def path(self) -> str:
        """The path as the log writes it, percent-decoded once."""
        return self._batch.paths[self._row]

    @property
    def uri(self) -> str:
        """The absolute address."""
        return self._batch.uris[self._row]

    @property
    def raw_path(self) -> str:
        """The path exactly as the log writes it."""
        return self._batch.raw_paths[self._row]

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._batch.column("size")[self._row]

    @property
    def modification_time(self) -> datetime | None:
        """When the file was written, UTC; None where the log states no possible time."""
        return self._batch.modification_times[self._row]

    @property
    def partition_values(self) -> dict[str, Any]:
        """Typed partition values by column."""
        return self._batch.partition_values[self._row]

    @property
    def raw_partition_values(self) -> dict[str, str | None]:
        """Partition values as the log writes them."""
        return dict(self._batch.column("partition_values")[self._row] or ())

    @property
    def deletion_vector(self) -> DeletionVector | None:
        """The deletion vector, or None if no row of the file is deleted."""
        found = self._batch.column("deletion_vector")[self._row]
        return None if found is None else DeletionVector(**found)

    @property
    def num_records(self) -> int | None:
        """Rows in the file, deleted ones included; None where the log does not say."""
        return self._batch.column("num_records")[self._row]

    @property
    def stats(self) -> dict[str, Any] | None:
        """The statistics as the log has them, by physical column name."""
        stated = self._batch.column("stats")[self._row]
        try:
            return None if stated is None else orjson.loads(stated)
        except orjson.JSONDecodeError:
            return None

    @property
    def tags(self) -> dict[str, str | None]:
        """Free-form tags of the file."""
        return dict(self._batch.column("tags")[self._row] or ())

    @property
    def base_row_id(self) -> int | None:
        """Row id of the file's first row, where rows are tracked."""
        return self._batch.column("base_row_id")[self._row]

    @property
    def default_row_commit_version(self) -> int | None:
        """Version that rows of the file were committed at, where rows are tracked."""
        return self._batch.column("default_row_commit_version")[self._row]

    @property
    def clustering_provider(self) -> str | None:
        """Who clustered the file."""
        return self._batch.column("clustering_provider")[self._row]

    @property
    def version(self) -> int | None:
        """The commit that the add was read from; None if it came from a checkpoint."""
        return self._batch.column("version")[self._row]

    def __repr__(self) -> str:
        return f"ScanFile(path={self.path!r}, size={self.size})"


class FileColumns:
    """A batch of planned files, its columns as Python lists once somebody looks at them."""

    def __init__(self, batch: pa.RecordBatch, raw_paths: pa.Array, shared: FileBatches) -> None:
        self._batch = batch
        self._raw = raw_paths
        self._shared = shared
        self._lists: dict[str, Sequence[Any]] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def column(self, name: str) -> Sequence[Any]:
        """Return a column as a list."""
        found = self._lists.get(name)
        if found is None:
            found = self._lists[name] = self._batch.column(name).to_pylist()
        return found

    @cached_property
    def paths(self) -> list[str]:
        """Decoded paths."""
        return list(self.column("path"))

    @cached_property
    def raw_paths(self) -> list[str]:
        """Paths as the log writes them."""
        return list(self._raw.to_pylist())

    @cached_property
    def modification_times(self) -> list[datetime | None]:
        """When each file was written."""
        return list(map(_moment, self._batch.column("modification_time").view("int64").to_pylist()))

    @cached_property
    def uris(self) -> list[str]:
        """Absolute addresses."""
        return list(self._shared.resolver.uris(self._raw).to_pylist())

    @cached_property
    def partition_values(self) -> list[dict[str, Any]]:
        """Typed partition values of each file."""
        values = self._batch.column("partition_values")
        columns = {}
        for name, kind in self._shared.partition_types.items():
            texts = pc.map_lookup(values, string_scalar(name), "first")
            columns[name] = parse_partition_values(texts, kind).to_pylist()
        names = list(columns)
        if not names:
            return [{} for _ in range(len(self))]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _moment(milliseconds: int | None) -> datetime | None:
    try:
        return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
