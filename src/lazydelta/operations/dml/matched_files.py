"""Pass 1 of a verb: which files have matching rows, and at which positions.

Reads only the columns of the predicate, of files that partition values and statistics leave
undecided. A file whose rows all match by these is not opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import empty_table, from_numpy
from lazydelta.expressions.nodes import IsTrue, Not
from lazydelta.formats import num_records
from lazydelta.operations.dml.table_rules import plain_rows
from lazydelta.parquet import DataFile
from lazydelta.replay.skipping import Pruner
from lazydelta.scan import Scan
from lazydelta.scan.plan import live_adds
from lazydelta.scan.read import FileStores, read_files
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "MatchedFiles",
    "candidates",
    "deleted_rows",
    "find_matches",
    "split_by_statistics",
    "split_matches",
]

_FILE, _ROW = "file", "row"
_LONG = PrimitiveType("long")
_NO_COUNTS = pa.nulls(0, pa.int64())


@dataclass(frozen=True, slots=True)
class MatchedFiles:
    """The files with matching rows, as add actions in the schema of `ADDS`."""

    whole: pa.Table
    """Files of which every row matches."""
    partial: pa.Table
    """Files of which some rows match."""
    rows: tuple[Any, ...]
    """For each partial file a 64-bit bitmap of the positions of its matching rows."""
    num_rows: pa.Array
    """For each partial file the number of its rows, deleted ones included."""

    @property
    def all(self) -> pa.Table:
        """All files with matching rows."""
        return pa.concat_tables([self.whole, self.partial])

    @property
    def matched_rows(self) -> int | None:
        """The number of matching rows; None if a whole file has no row count."""
        counts = pc.subtract(num_records(_stats(self.whole)), deleted_rows(self.whole))
        if counts.null_count:
            return None
        return int(pc.sum(counts).as_py() or 0) + sum(map(len, self.rows))


def find_matches(
    snapshot: SnapshotState, predicate: Predicate | None, files: pa.Table | None = None
) -> MatchedFiles:
    """Find the files and rows that match; all without a predicate.

    Args:
        snapshot: The table.
        predicate: Selects the rows.
        files: Add actions of the files to search; by default those of the snapshot.
    """
    whole, undecided = split_by_statistics(snapshot, predicate, files)
    if predicate is None or not undecided.num_rows:
        return MatchedFiles(whole, undecided, (), _NO_COUNTS)
    partial = _read(snapshot, predicate, undecided)
    return replace(partial, whole=pa.concat_tables([whole, partial.whole]))


def split_by_statistics(
    snapshot: SnapshotState, predicate: Predicate | None, files: pa.Table | None = None
) -> tuple[pa.Table, pa.Table]:
    """Return the files of which all rows match, and those of which some may.

    Partition values and statistics decide; no data file is opened.
    """
    if predicate is None:
        batches = [_adds(batch) for batch in candidates(snapshot, Pruner(), files)]
        return pa.Table.from_batches(batches, ADDS), empty_table(ADDS)
    whole, undecided = [], []
    others = _pruner(snapshot, Not(IsTrue(predicate)))
    for batch in candidates(snapshot, _pruner(snapshot, predicate), files):
        may_stay = others.mask(batch)
        if may_stay is None:
            undecided.append(_adds(batch))
        else:
            undecided.append(_adds(batch.filter(may_stay)))
            whole.append(_adds(batch.filter(pc.invert(may_stay))))
    return pa.Table.from_batches(whole, ADDS), pa.Table.from_batches(undecided, ADDS)


def candidates(
    snapshot: SnapshotState, pruner: Pruner, files: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """Yield the add actions of files that may match."""
    if files is None:
        yield from live_adds(snapshot, ADDS, pruner)
        return
    for batch in files.to_batches():
        mask = pruner.mask(batch)
        yield batch if mask is None else batch.filter(mask)


def _pruner(snapshot: SnapshotState, predicate: Predicate) -> Pruner:
    return Pruner.build(
        predicate,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        mapping_mode=snapshot.column_mapping_mode,
        generated=snapshot.generates_columns,
    )


def deleted_rows(adds: pa.Table) -> pa.Array:
    """Return how many rows of each file its deletion vector deletes."""
    vectors = adds.column("deletionVector").combine_chunks()
    return pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)


def _adds(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(ADDS.names)


def _stats(adds: pa.Table) -> pa.Array:
    return adds.column("stats").combine_chunks()


def _read(snapshot: SnapshotState, predicate: Predicate, files: pa.Table) -> MatchedFiles:
    """Read the undecided files, and keep those with matching rows."""
    shown = snapshot.resolver.decoded(files.column("path").combine_chunks())
    index_of = {path: index for index, path in enumerate(shown.to_pylist())}
    matched: dict[int, Any] = {}
    for path, positions in _positions(snapshot, predicate, files):
        index = index_of[path]
        matched[index] = positions if index not in matched else matched[index] | positions
    chosen = sorted(matched)
    files = files.take(build_array(chosen, _LONG))
    return split_matches(snapshot, files, [matched[index] for index in chosen])


def split_matches(snapshot: SnapshotState, files: pa.Table, rows: Sequence[Any]) -> MatchedFiles:
    """Return which files have only matching rows.

    Args:
        snapshot: The table.
        files: Add actions of the files.
        rows: For each file a bitmap of the positions of its matching rows, at least one.
    """
    files = files.combine_chunks()
    num_rows = _num_rows(snapshot, files)
    live = pc.subtract(num_rows, deleted_rows(files))
    is_whole = pc.equal(live, build_array([len(bitmap) for bitmap in rows], _LONG))
    is_partial = pc.invert(is_whole)
    kept = is_partial.to_pylist()
    return MatchedFiles(
        files.filter(is_whole),
        files.filter(is_partial),
        tuple(bitmap for bitmap, keep in zip(rows, kept, strict=True) if keep),
        num_rows.filter(is_partial),
    )


def _positions(
    snapshot: SnapshotState, predicate: Predicate, files: pa.Table
) -> Iterator[tuple[str, Any]]:
    """Yield the path of a file and a bitmap of matching rows; a file may come several times."""
    from pyroaring import BitMap64

    options = replace(
        plain_rows(snapshot), file_column_name=_FILE, row_index_column=_ROW, ordered=False
    )
    scan = Scan(snapshot, where=predicate)
    with read_files(scan, files.to_batches(), columns=(), options=options) as batches:
        for batch in batches:  # each of one file
            yield batch.column(_FILE)[0].as_py(), BitMap64(_uint64(batch.column(_ROW)))


def _uint64(array: pa.Array) -> np.ndarray[Any, Any]:
    return array.to_numpy(zero_copy_only=False).astype(np.uint64)


def _num_rows(snapshot: SnapshotState, files: pa.Table) -> pa.Array:
    """Return the number of rows of each file, from its footer where statistics are missing."""
    counts = num_records(_stats(files))
    if not counts.null_count:
        return counts
    stores = FileStores(snapshot.store, snapshot.config)
    numbers = counts.to_numpy(zero_copy_only=False)
    for index in np.flatnonzero(counts.is_null().to_numpy(zero_copy_only=False)):
        location = snapshot.resolver.to_open(files.column("path")[index].as_py())
        limit = snapshot.config.read.max_inflated_bytes
        file = DataFile(stores.store(location), location.path, max_decoded_bytes=limit)
        numbers[index] = file.num_rows
        file.close()
    return from_numpy(numbers.astype(np.int64))
