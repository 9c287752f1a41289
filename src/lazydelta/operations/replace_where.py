"""What an overwrite takes away: whole files where it can, and the rest of a file rewritten.

Everything is planned on one version, the one that was read, and told to the commit as such: files
that came later are a matter for the conflict check, never silently kept or dropped.
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
from lazydelta.writer import CHANGE_FEED, ROW_TRACKING, check_names, is_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta._stream import Stream
    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Column, Stat
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = ["Replacement", "replace_where"]

_KEPT = ("path", "partitionValues", "size", "stats", "tags", "deletionVector", "baseRowId")
_FIELDS = pa.schema([item for item in ADD if item.name in (*_KEPT, "defaultRowCommitVersion")])
_LONG, _BOOLEAN, _STRING = (PrimitiveType(name) for name in ("long", "boolean", "string"))
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Files to remove, rows of them to write again, and what was looked at to tell."""

    removes: pa.Table = field(default_factory=lambda: empty_table(REMOVES))
    reads: Reads = field(default_factory=Reads)
    rewritten: Stream[pa.RecordBatch] | None = None
    """Rows that stay, of files that go."""
    deleted: Stream[pa.RecordBatch] | None = None
    """All rows that go, where the change feed is to tell of each; None where files tell it."""
    predicate: Predicate | None = None
    """Which rows are replaced; every new row must match it."""

    def checked(self, batch: pa.RecordBatch, table: str) -> pa.RecordBatch:
        """Return the new rows, all of which match.

        Raises:
            ConstraintViolationError: A row does not, or may not: null is no match.
        """
        if self.predicate is None or not batch.num_rows:
            return batch
        found = evaluate(self.predicate, lambda column: _values(batch, column), batch.num_rows)
        wrong = pc.invert(pc.and_kleene(found, pc.is_valid(found)))
        if wrong.true_count:
            rows = batch.filter(wrong).slice(0, _SHOWN).to_pylist()
            reason = f"{wrong.true_count} of {batch.num_rows} rows do not match the predicate"
            shown = f"{reason} {self.predicate}, for instance {rows[0]}"
            raise ConstraintViolationError(table, (shown,))
        return batch


def replace_where(snapshot: SnapshotState, where: Where) -> Replacement:
    """Return the removal of the rows of a version that match, or of all without a predicate.

    A file without a matching row stays, one with only such rows goes, and the other rows of any
    other file are written again. Which of these a file is, statistics tell or else its rows.

    Raises:
        UnsupportedFeatureError: A file must be rewritten in part, and the table keeps track of
            single rows in a way that lazydelta cannot go on with.
        SchemaError: The table has a column with a name of the change feed's own.
    """
    given = as_predicate(where)
    if given is None:
        return _replace_all(snapshot)
    predicate = bind(given, snapshot.schema, snapshot.partition_columns)
    matching = Scan(snapshot, where=given)
    staying = Scan(snapshot, where=Not(IsTrue(given)))
    mixed = _paths(live_adds(snapshot, _FIELDS, _pruner(snapshot, Not(IsTrue(given)))))
    gone: list[pa.RecordBatch] = []
    partly: list[pa.RecordBatch] = []
    for batch in live_adds(snapshot, _FIELDS, _pruner(snapshot, given)):
        may_stay = pc.is_in(batch.column("path"), value_set=mixed)
        gone.append(batch.filter(pc.invert(may_stay)))
        some = batch.filter(may_stay)
        files = (some.slice(at, 1) for at in range(some.num_rows))
        partly += [file for file in files if _has_rows(matching, file)]
    rewritten = [file for file in partly if _has_rows(staying, file)]
    if rewritten:
        _refuse_row_tracking(snapshot)
    told = bool(rewritten) and _is_told_by_rows(snapshot)
    read = [path for file in partly for path in file.column("path").to_pylist()]
    return Replacement(
        removes=_removes([*gone, *partly]),
        reads=Reads(predicates=(predicate,), paths=build_array(read, _STRING)),
        rewritten=read_files(staying, rewritten) if rewritten else None,
        deleted=read_files(matching, [*gone, *partly]) if told else None,
        predicate=predicate,
    )


def _replace_all(snapshot: SnapshotState) -> Replacement:
    """Return the removal of every file of a version."""
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
    """Whether a file has a row that the scan wants; it is read only as far as the first."""
    with read_files(scan, [file], columns=()) as batches:
        return any(batch.num_rows for batch in batches)


def _refuse_row_tracking(snapshot: SnapshotState) -> None:
    if is_on(snapshot.metadata.configuration, ROW_TRACKING):
        reason = (
            "the predicate matches some rows of a file but not all, and to rewrite the others "
            f"under rowTracking is not supported; replace whole partitions, or unset {ROW_TRACKING}"
        )
        raise UnsupportedFeatureError(snapshot.store.root, ("rowTracking",), "write", reason)


def _is_told_by_rows(snapshot: SnapshotState) -> bool:
    """Whether the table records changes: files with copied rows would tell of them as changed."""
    if not is_on(snapshot.metadata.configuration, CHANGE_FEED):
        return False
    check_names(
        snapshot.schema, snapshot.metadata.configuration, mapped=True, table=snapshot.store.root
    )
    return True


def _removes(batches: list[pa.RecordBatch]) -> pa.Table:
    """Return the removal of files, with all that the log knows of them."""
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
