"""Plan an overwrite: remove whole files where possible, rewrite files that match in part.

The plan is made on one snapshot, and the commit declares what it read: files that were added since
are left to conflict detection, never silently kept or dropped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import empty_table
from lazydelta.errors import ConstraintViolationError, UnsupportedFeatureError
from lazydelta.expressions import as_predicate, bind, evaluate
from lazydelta.expressions.nodes import IsTrue, Not
from lazydelta.protocol.schemas import ADD
from lazydelta.replay.skipping import Pruner
from lazydelta.scan import Scan
from lazydelta.scan.plan import live_adds
from lazydelta.scan.read import read_files
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array, build_scalar
from lazydelta.transaction import REMOVES, Reads
from lazydelta.writer.columns import check_names
from lazydelta.writer.properties import CHANGE_FEED, ROW_TRACKING, is_enabled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta._stream import Stream
    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Column, Stat
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = ["Replacement", "replace_where"]

_NAMES = (
    *("path", "partitionValues", "size", "stats", "tags", "deletionVector"),
    *("baseRowId", "defaultRowCommitVersion"),
)
_FIELDS = pa.schema([field for field in ADD if field.name in _NAMES])
"""Fields of an add action that its remove action keeps."""
_LONG, _BOOLEAN, _STRING = (PrimitiveType(name) for name in ("long", "boolean", "string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Files to remove, their rows to rewrite, and the reads of the transaction."""

    removes: pa.Table = field(default_factory=lambda: empty_table(REMOVES))
    reads: Reads = field(default_factory=Reads)
    rewritten: Stream[pa.RecordBatch] | None = None
    """Rows to keep of the files to remove."""
    deleted: Stream[pa.RecordBatch] | None = None
    """All deleted rows, if the commit needs change data files, else None."""
    predicate: Predicate | None = None
    """Selects the rows to replace; every new row must match it."""

    def checked(self, batch: pa.RecordBatch, table: str) -> pa.RecordBatch:
        """Return the new rows unchanged if all of them match the predicate.

        Raises:
            ConstraintViolationError: The predicate is false or null for a row.
        """
        if self.predicate is None or not batch.num_rows:
            return batch
        matches = evaluate(self.predicate, lambda column: _values(batch, column), batch.num_rows)
        unmatched = pc.invert(pc.and_kleene(matches, pc.is_valid(matches)))
        if unmatched.true_count:
            (row,) = batch.filter(unmatched).slice(0, 1).to_pylist()
            reason = f"{unmatched.true_count} of {batch.num_rows} rows do not match the predicate"
            message = f"{reason} {self.predicate}, for example {row}"
            raise ConstraintViolationError(table, (message,))
        return batch


def replace_where(snapshot: SnapshotState, where: Where) -> Replacement:
    """Plan to remove the matching rows of a snapshot, or all rows without a predicate.

    A file without a matching row stays, and one with only matching rows is removed. Any other is
    removed, and its other rows are rewritten. Statistics decide where they can, else the rows.

    Raises:
        UnsupportedFeatureError: A file must be rewritten in part under row tracking.
        SchemaError: The table has a column whose name the change feed reserves.
    """
    predicate = as_predicate(where)
    if predicate is None:
        return _replace_all(snapshot)
    bound = bind(predicate, snapshot.schema, snapshot.partition_columns)
    matching = Scan(snapshot, where=predicate)
    kept = Scan(snapshot, where=Not(IsTrue(predicate)))
    maybe_kept = _paths(live_adds(snapshot, _FIELDS, _pruner(snapshot, Not(IsTrue(predicate)))))
    removed: list[pa.RecordBatch] = []
    partial: list[pa.RecordBatch] = []
    for batch in live_adds(snapshot, _FIELDS, _pruner(snapshot, predicate)):
        may_stay = pc.is_in(batch.column("path"), value_set=maybe_kept)
        removed.append(batch.filter(pc.invert(may_stay)))
        undecided = batch.filter(may_stay)
        files = (undecided.slice(index, 1) for index in range(undecided.num_rows))
        partial += [file for file in files if _has_rows(matching, file)]
    rewritten = [file for file in partial if _has_rows(kept, file)]
    if rewritten:
        _refuse_row_tracking(snapshot)
    needs_change_files = bool(rewritten) and _needs_change_files(snapshot)
    read = [path for file in partial for path in file.column("path").to_pylist()]
    return Replacement(
        removes=_removes([*removed, *partial]),
        reads=Reads(predicates=(bound,), paths=build_array(read, _STRING)),
        rewritten=read_files(kept, rewritten) if rewritten else None,
        deleted=read_files(matching, [*removed, *partial]) if needs_change_files else None,
        predicate=bound,
    )


def _replace_all(snapshot: SnapshotState) -> Replacement:

    batches = list(live_adds(snapshot, _FIELDS, Pruner()))
    return Replacement(removes=_removes(batches), reads=Reads(whole_table=True))


def _pruner(snapshot: SnapshotState, predicate: Predicate) -> Pruner:
    return Pruner.build(
        predicate,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        mapping_mode=snapshot.column_mapping_mode,
        generated=snapshot.generates_columns,
    )


def _paths(batches: Iterator[pa.RecordBatch]) -> pa.ChunkedArray:
    return pa.chunked_array([batch.column("path") for batch in batches], pa.string())


def _has_rows(scan: Scan, file: pa.RecordBatch) -> bool:
    """Whether a file has a row that the scan selects; reading stops at the first."""
    with read_files(scan, [file], columns=()) as batches:
        return any(batch.num_rows for batch in batches)


def _refuse_row_tracking(snapshot: SnapshotState) -> None:
    if is_enabled(snapshot.metadata.configuration, ROW_TRACKING):
        reason = (
            "the predicate matches some rows of a file but not all, and rewriting the others "
            f"under rowTracking is not supported; replace whole partitions, or unset {ROW_TRACKING}"
        )
        raise UnsupportedFeatureError(snapshot.store.root, ("rowTracking",), "write", reason)


def _needs_change_files(snapshot: SnapshotState) -> bool:
    """Whether the change feed is enabled: without change data files copies would be changes."""
    if not is_enabled(snapshot.metadata.configuration, CHANGE_FEED):
        return False
    check_names(
        snapshot.schema, snapshot.metadata.configuration, mapped=True, table=snapshot.store.root
    )
    return True


def _removes(batches: list[pa.RecordBatch]) -> pa.Table:
    """Return remove actions with extended file metadata."""
    files = pa.Table.from_batches([batch.select(_FIELDS.names) for batch in batches], _FIELDS)
    files = files.combine_chunks()
    count = files.num_rows
    constants = {
        "deletionTimestamp": build_scalar(time.time_ns() // 1_000_000, _LONG),
        "dataChange": build_scalar(True, _BOOLEAN),
        "extendedFileMetadata": build_scalar(True, _BOOLEAN),
    }
    arrays = [
        pa.repeat(constants[name], count) if name in constants else files.column(name)
        for name in REMOVES.names
    ]
    return pa.Table.from_arrays(arrays, schema=REMOVES)


def _values(batch: pa.RecordBatch, column: Column | Stat) -> pa.Array:
    array = batch.column(column.path[0])
    for part in column.path[1:]:
        array = pc.struct_field(array, array.type.get_field_index(part))
    return array
