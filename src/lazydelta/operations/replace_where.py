"""Plan an overwrite: remove whole files where possible, rewrite files that match in part.

The plan is made on one snapshot, and the commit declares what it read: files that were added since
are left to conflict detection, never silently kept or dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import empty_table
from lazydelta.errors import ConstraintViolationError
from lazydelta.expressions import as_predicate, bind, evaluate
from lazydelta.expressions.nodes import IsTrue, Not
from lazydelta.operations.dml.matched_files import find_matches
from lazydelta.operations.dml.row_deletion import removes_of
from lazydelta.operations.dml.table_rules import has_change_feed, plain_rows
from lazydelta.operations.row_tracking import NO_ROW_TRACKING, RowTracking
from lazydelta.scan import Scan
from lazydelta.scan.read import read_files
from lazydelta.transaction import REMOVES, Reads

if TYPE_CHECKING:
    from lazydelta._stream import Stream
    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Column, Stat
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = ["Replacement", "replace_where"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Files to remove, their rows to rewrite, and the reads of the transaction."""

    removes: pa.Table = field(default_factory=lambda: empty_table(REMOVES))
    reads: Reads = field(default_factory=Reads)
    rewritten: Stream[pa.RecordBatch] | None = None
    """Rows to keep of the files to remove, with their row ids."""
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
        SchemaError: The table has a column whose name the change feed reserves.
    """
    predicate = as_predicate(where)
    matches = find_matches(snapshot, predicate)
    if predicate is None:
        return Replacement(removes=removes_of([matches.whole]), reads=Reads(whole_table=True))
    bound = bind(predicate, snapshot.schema, snapshot.partition_columns)
    partial = matches.partial
    needs_change_files = bool(partial.num_rows) and has_change_feed(snapshot)
    matching = Scan(snapshot, where=predicate)
    kept = Scan(snapshot, where=Not(IsTrue(predicate)))
    read = partial.column("path").combine_chunks()
    return Replacement(
        removes=removes_of([matches.all]),
        reads=Reads(predicates=(bound,), paths=read),
        rewritten=_rows(kept, partial, RowTracking.of(snapshot)) if partial.num_rows else None,
        deleted=_rows(matching, matches.all, NO_ROW_TRACKING) if needs_change_files else None,
        predicate=bound,
    )


def _rows(scan: Scan, files: pa.Table, tracking: RowTracking) -> Stream[pa.RecordBatch]:
    options = tracking.read_options(plain_rows(scan.snapshot))
    return read_files(scan, files.to_batches(), options=options)


def _values(batch: pa.RecordBatch, column: Column | Stat) -> pa.Array:
    array = batch.column(column.path[0])
    for part in column.path[1:]:
        array = pc.struct_field(array, array.type.get_field_index(part))
    return array
