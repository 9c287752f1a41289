"""How matched rows leave their files: whole files removed, deletion vectors, or rewrites."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.formats import DeletionVectorGroup
from lazydelta.operations.dml.matched_files import deleted_rows, split_matches
from lazydelta.protocol.features import supported_features
from lazydelta.protocol.schemas import DELETION_VECTOR
from lazydelta.scan.read import FileStores
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array, build_scalar
from lazydelta.transaction import ADDS, REMOVES
from lazydelta.writer.properties import is_enabled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Sized

    from lazydelta.operations.dml.matched_files import MatchedFiles
    from lazydelta.snapshot import SnapshotState
    from lazydelta.writer.files import DeletionVectorWriter

__all__ = [
    "RowDeletion",
    "extend_vectors",
    "has_vectors",
    "plan_counted_deletion",
    "plan_deletion",
    "removes_of",
    "total_size",
    "with_vectors",
    "write_vectors",
]

_LONG, _BOOLEAN, _STRING = (PrimitiveType(name) for name in ("long", "boolean", "string"))
_VECTORS = "delta.enableDeletionVectors"
_VECTOR_TYPES = {
    pa.string(): _STRING,
    pa.int32(): PrimitiveType("integer"),
    pa.int64(): _LONG,
}


@dataclass(frozen=True, slots=True)
class RowDeletion:
    """The files that change, as add actions in the schema of `ADDS`."""

    whole: pa.Table
    """Files to remove."""
    rewritten: pa.Table
    """Files to remove whose other rows are copied to new files."""
    rewritten_rows: tuple[Any, ...]
    """For each rewritten file a bitmap of the rows that are not copied."""
    marked: pa.Table
    """Files that stay, with a new deletion vector."""
    marked_rows: tuple[Any, ...]
    """For each marked file a bitmap of the rows to delete."""
    marked_counts: pa.Array
    """For each marked file the number of its rows, deleted ones included."""

    @property
    def partial(self) -> pa.Table:
        """The files that keep some rows."""
        return pa.concat_tables([self.rewritten, self.marked]).combine_chunks()

    @property
    def removed(self) -> pa.Table:
        """The data files that leave the table."""
        return pa.concat_tables([self.whole, self.rewritten]).combine_chunks()


def has_vectors(snapshot: SnapshotState) -> bool:
    """Whether new deletion vectors may be written."""
    is_supported = "deletionVectors" in supported_features(snapshot.protocol)
    return is_supported and is_enabled(snapshot.metadata.configuration, _VECTORS)


def plan_deletion(snapshot: SnapshotState, matches: MatchedFiles) -> RowDeletion:
    """Choose for each partial file between a deletion vector and a rewrite."""
    partial, counts = matches.partial, matches.num_rows
    if has_vectors(snapshot):
        new = build_array([len(rows) for rows in matches.rows], _LONG)
        share = pc.divide(pc.cast(pc.add(deleted_rows(partial), new), pa.float64()), counts)
        is_marked = pc.less_equal(share, snapshot.config.max_deleted_rows_ratio)
    else:
        is_marked = pa.repeat(build_scalar(False, _BOOLEAN), partial.num_rows)
    kept = is_marked.to_pylist()
    return RowDeletion(
        matches.whole,
        partial.filter(pc.invert(is_marked)),
        tuple(rows for rows, keep in zip(matches.rows, kept, strict=True) if not keep),
        partial.filter(is_marked).combine_chunks(),
        tuple(rows for rows, keep in zip(matches.rows, kept, strict=True) if keep),
        counts.filter(is_marked),
    )


def plan_counted_deletion(
    snapshot: SnapshotState, decided: pa.Table, files: pa.Table, rows: Sequence[Sized]
) -> tuple[RowDeletion, int | None]:
    """Plan a deletion whose bitmaps other processes have; return the number of rows too.

    Args:
        snapshot: The version of the files.
        decided: Files of which all rows are deleted.
        files: Files of which rows are deleted.
        rows: What stands for the rows of each of these files; its length is their number.
    """
    matches = split_matches(snapshot, files, rows)
    matches = replace(matches, whole=pa.concat_tables([decided, matches.whole]))
    return plan_deletion(snapshot, matches), matches.matched_rows


def write_vectors(
    snapshot: SnapshotState, deletion: RowDeletion, writer: DeletionVectorWriter
) -> pa.Table:
    """Write the deletion vectors of marked files, and return their new add actions."""
    marked = deletion.marked
    if not marked.num_rows:
        return marked
    descriptors = extend_vectors(snapshot, marked, deletion.marked_rows, writer)
    return with_vectors(marked, descriptors, deletion.marked_counts)


def extend_vectors(
    snapshot: SnapshotState,
    files: pa.Table | pa.RecordBatch,
    rows: Iterable[Any],
    writer: DeletionVectorWriter,
) -> list[dict[str, Any]]:
    """Write the vectors of files and of more rows, and return their descriptors.

    Args:
        snapshot: The version of the files.
        files: Columns `path` and `deletionVector` of the add actions.
        rows: For each file a bitmap of the rows to delete.
        writer: Writes the vectors.
    """
    paths = files.column("path").to_pylist()
    group = DeletionVectorGroup(
        list(zip(paths, files.column("deletionVector").to_pylist(), strict=True)),
        snapshot.resolver,
        FileStores(snapshot.store, snapshot.config).store,
    )
    descriptors = []
    for index, deleted in enumerate(rows):
        before = group.take(index)
        descriptors.append(writer.add(deleted if before is None else before.union(deleted)))
    writer.finish()
    return descriptors


def with_vectors(
    marked: pa.Table, descriptors: Sequence[Mapping[str, Any]], num_rows: pa.Array
) -> pa.Table:
    """Return the add actions of files with new deletion vectors.

    Args:
        marked: The add actions so far.
        descriptors: The new `deletionVector` of each file.
        num_rows: For each file the number of its rows, deleted ones included.
    """
    stats = map(_wide_stats, marked.column("stats").to_pylist(), num_rows.to_pylist())
    columns = {
        "deletionVector": _vector_array(descriptors),
        "stats": build_array(list(stats), _STRING),
        "dataChange": pa.repeat(build_scalar(True, _BOOLEAN), marked.num_rows),
    }
    arrays = [columns.get(name, marked.column(name)) for name in ADDS.names]
    return pa.Table.from_arrays(arrays, schema=ADDS)


def _vector_array(descriptors: Sequence[Mapping[str, Any]]) -> pa.StructArray:
    arrays = [
        build_array([one[field.name] for one in descriptors], _VECTOR_TYPES[field.type])
        for field in DELETION_VECTOR
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(DELETION_VECTOR))


def _wide_stats(stats: str | None, num_rows: int) -> str:
    """Return statistics whose bounds may be of deleted rows, as a file with a vector needs."""
    try:
        parsed = orjson.loads(stats or "{}")
    except orjson.JSONDecodeError:
        parsed = {}
    return orjson.dumps({**parsed, "numRecords": num_rows, "tightBounds": False}).decode()


def removes_of(tables: Sequence[pa.Table], *, data_change: bool = True) -> pa.Table:
    """Return the remove actions of files, with extended file metadata and their vectors."""
    files = pa.concat_tables(tables).combine_chunks()
    constants = {
        "deletionTimestamp": build_scalar(time.time_ns() // 1_000_000, _LONG),
        "dataChange": build_scalar(data_change, _BOOLEAN),
        "extendedFileMetadata": build_scalar(True, _BOOLEAN),
    }
    arrays = [
        pa.repeat(constants[name], files.num_rows) if name in constants else files.column(name)
        for name in REMOVES.names
    ]
    return pa.Table.from_arrays(arrays, schema=REMOVES)


def total_size(files: pa.Table) -> int:
    """Return the total size of files in bytes."""
    return int(pc.sum(files.column("size")).as_py() or 0)
