"""File records: what a client needs to read a table's Parquet files right by itself.

Converts add actions to records as Arrow batches. Only deletion vectors that a client requests are
fetched, and only their rows are Python objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_mask
from lazydelta.errors import ClientCapabilityError, ConfigError
from lazydelta.formats import DeletionVectorGroup
from lazydelta.protocol.features import supported_features
from lazydelta.scan import tuning
from lazydelta.scan.plan.add_columns import PLAN_FIELDS, adds_schema
from lazydelta.scan.plan.partition_arrays import partition_columns
from lazydelta.scan.read import FileStores
from lazydelta.schema.mapping import physical_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.formats import DeletedRows
    from lazydelta.scan.plan.scan_files import FileBatches
    from lazydelta.schema import StructField
    from lazydelta.snapshot import SnapshotState

__all__ = ["FileRecordBatches", "FileRecords"]

_VECTORS = ("descriptor", "bitmap", "ranges")
_CAPABILITIES = ("deletionVectors", "typeWidening", "variantType")
"""Table features that change how the files are read, besides column mapping."""
_MAPPING = "columnMapping"
_RANGES = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecords:
    """What file records contain, and what their client can read.

    A client that does not declare a capability that the table needs is refused: it would read
    deleted rows, or miss columns.

    >>> FileRecords(
    ...     capabilities=frozenset({"deletionVectors"}), deletion_vectors="ranges"
    ... ).statistics
    False
    """

    capabilities: frozenset[str] = frozenset()
    """The table features that the client applies: `deletionVectors`, `columnMapping`,
    `typeWidening`, `variantType`."""
    deletion_vectors: Literal["descriptor", "bitmap", "ranges"] = "descriptor"
    """Whether records have deletion vectors only as descriptors of the log, or the deleted rows
    too: as a 64-bit Roaring bitmap (portable format) or as ranges."""
    statistics: bool = False
    """Whether records have the statistics of the log, by physical column name."""

    def __post_init__(self) -> None:
        """Validate the values."""
        if isinstance(self.capabilities, str) or not all(
            isinstance(name, str) for name in self.capabilities
        ):
            raise ConfigError("capabilities", "must be a set of names of table features")
        object.__setattr__(self, "capabilities", frozenset(self.capabilities))
        if self.deletion_vectors not in _VECTORS:
            reason = f"must be one of {', '.join(_VECTORS)}, not {self.deletion_vectors!r}"
            raise ConfigError("deletion_vectors", reason)
        if not isinstance(self.statistics, bool):
            raise ConfigError("statistics", f"must be True or False, not {self.statistics!r}")

    def to_json(self) -> tuple[Any, ...]:
        """Return the values for a token."""
        known = {*_CAPABILITIES, _MAPPING}
        return (sorted(self.capabilities & known), self.deletion_vectors, self.statistics)

    @classmethod
    def from_json(cls, values: tuple[Any, ...]) -> FileRecords:
        """Return the records of a token."""
        capabilities, vectors, statistics = values
        return cls(
            capabilities=frozenset(capabilities), deletion_vectors=vectors, statistics=statistics
        )


class FileRecordBatches:
    """Converts add actions to file records.

    Args:
        snapshot: The version of the files.
        records: What the records contain.
        files: Converts the columns that all listings have.

    Raises:
        ClientCapabilityError: The client does not support what the table needs.
    """

    def __init__(self, snapshot: SnapshotState, records: FileRecords, files: FileBatches) -> None:
        missing = _needed(snapshot) - records.capabilities
        if missing:
            raise ClientCapabilityError(snapshot.store.root, tuple(sorted(missing)))
        self._snapshot, self._records, self._files = snapshot, records, files
        self._stores = FileStores(snapshot.store, snapshot.config)
        self._metadata = _schema_metadata(snapshot)
        self.fields = (*PLAN_FIELDS, "numRecords", *(["stats"] if records.statistics else []))
        """The fields of the adds."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the records."""
        empty = pa.RecordBatch.from_pylist([], adds_schema(self.fields))
        return self.convert(empty).schema

    def convert(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records of add actions.

        Raises:
            PathNotAllowedError: A file is outside of the table, and not allowed.
            DeletionVectorError: A requested deletion vector is missing or damaged.
        """
        snapshot, records = self._snapshot, self._records
        listed = self._files.convert(adds)
        columns = {
            "uri": snapshot.resolver.client_uris(adds.column("path")),
            "size": listed.column("size"),
            "modification_time": listed.column("modification_time"),
        }
        names = snapshot.partition_columns
        if names:
            values = partition_columns(snapshot, adds.column("partitionValues"), names)
            arrays = [values[name] for name in names]
            columns["partition_values"] = pa.StructArray.from_arrays(arrays, names)
        columns["version"] = listed.column("version")
        columns["live_rows"] = _live_rows(adds)
        columns["deletion_vector"] = listed.column("deletion_vector")
        if records.deletion_vectors == "bitmap":
            columns["deleted_bitmap"] = self._bitmaps(adds)
        elif records.deletion_vectors == "ranges":
            columns["deleted_ranges"] = self._ranges(adds)
        if records.statistics:
            columns["num_records"] = adds.column("numRecords")
            columns["statistics"] = adds.column("stats")
        batch = pa.RecordBatch.from_pydict(columns)
        return batch.replace_schema_metadata(self._metadata)

    def _bitmaps(self, adds: pa.RecordBatch) -> pa.Array:
        """Return the bitmaps of the files with a deletion vector; null for the others."""
        bitmaps: list[bytes | None] = [None] * adds.num_rows
        for row, deleted in self._deleted(adds):
            bitmaps[row] = deleted.serialized()
        return pa.array(bitmaps, pa.binary())

    def _ranges(self, adds: pa.RecordBatch) -> pa.Array:
        """Return the ranges of deleted rows of the files with a deletion vector."""
        counts = np.zeros(adds.num_rows, np.int32)
        parts = [np.empty((0, 2), np.int64)]
        for row, deleted in self._deleted(adds):
            parts.append(deleted.ranges())
            counts[row] = len(parts[-1])
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int32)
        values = np.concatenate(parts)
        ends = [from_numpy(np.ascontiguousarray(values[:, column])) for column in (0, 1)]
        ranges = pa.StructArray.from_arrays(ends, fields=list(_RANGES.value_type))
        without = adds.column("deletionVector").is_null()
        return pa.ListArray.from_arrays(from_numpy(offsets), ranges, type=_RANGES, mask=without)

    def _deleted(self, adds: pa.RecordBatch) -> list[tuple[int, DeletedRows]]:
        """Fetch the deletion vectors of files, and return them with the rows of the files."""
        rows = np.flatnonzero(to_mask(adds.column("deletionVector").is_valid()))
        found: list[tuple[int, DeletedRows]] = []
        for start in range(0, len(rows), tuning.VECTORS_PER_FETCH):
            some = rows[start : start + tuning.VECTORS_PER_FETCH]
            part = adds.take(from_numpy(some))
            paths = self._snapshot.resolver.decoded(part.column("path")).to_pylist()
            vectors = part.column("deletionVector").to_pylist()
            named = list(zip(paths, vectors, strict=True))
            group = DeletionVectorGroup(named, self._snapshot.resolver, self._stores.store)
            for index in range(len(some)):
                group.request(index)
            for index, row in enumerate(some.tolist()):
                deleted = group.take(index)
                if deleted is not None:
                    found.append((row, deleted))
        return found


def _needed(snapshot: SnapshotState) -> set[str]:
    """Return the capabilities that reading files of the table needs."""
    features = {name.removesuffix("-preview") for name in supported_features(snapshot.protocol)}
    needed = features & set(_CAPABILITIES)
    return needed | ({_MAPPING} if snapshot.column_mapping_mode != "none" else set())


def _live_rows(adds: pa.RecordBatch) -> pa.Array:
    """Return the rows of each file that are not deleted; null if the log has no count."""
    deleted = pc.fill_null(pc.struct_field(adds.column("deletionVector"), "cardinality"), 0)
    return pc.subtract(adds.column("numRecords"), deleted)


def _schema_metadata(snapshot: SnapshotState) -> dict[str, str]:
    """Return what a client needs to find the columns in the files."""
    columns = [_column(field, snapshot.column_mapping_mode) for field in snapshot.schema.fields]
    return {
        "delta.table_id": snapshot.metadata.id,
        "delta.version": str(snapshot.version),
        "delta.schema": snapshot.metadata.schema_string,
        "delta.partition_columns": orjson.dumps(snapshot.partition_columns).decode(),
        "delta.column_mapping_mode": snapshot.column_mapping_mode,
        "delta.columns": orjson.dumps(columns).decode(),
    }


def _column(field: StructField, mode: str) -> Mapping[str, Any]:
    """Return where a top-level column is; the schema has the same facts of nested ones."""
    return {
        "name": field.name,
        "physical_name": physical_name(field, mode),
        "id": field.metadata.get("delta.columnMapping.id") if mode != "none" else None,
        "type": str(field.type),
        "nullable": field.nullable,
        "type_changes": field.metadata.get("delta.typeChanges", []),
    }
