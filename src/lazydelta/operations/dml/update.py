"""UPDATE: write changed rows to new files, and delete their old versions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.expressions import bind_expression
from lazydelta.operations.dml.assignments import Assignments, ExpressionScope
from lazydelta.operations.dml.matched_files import find_matches
from lazydelta.operations.dml.request import DmlResult
from lazydelta.operations.dml.row_deletion import plan_deletion
from lazydelta.operations.dml.table_rules import has_change_feed
from lazydelta.operations.dml.verb import Verb, predicate_sql
from lazydelta.operations.dml.verb_changes import RowChanges
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.writer.columns import TableDefinition
from lazydelta.writer.files import read_added_rows, write_change_files, write_data_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lazydelta.config import Config
    from lazydelta.expressions import BoundExpression
    from lazydelta.operations.dml.matched_files import MatchedFiles
    from lazydelta.operations.dml.request import DmlRequest
    from lazydelta.schema import DataType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.writer.enforcement import Enforcement

__all__ = ["update_rows"]


def update_rows(
    store: Store,
    config: Config,
    assignments: Mapping[str, Any],
    request: DmlRequest,
    *,
    known: SnapshotState | None = None,
    remember: Callable[[SnapshotState | None], None] = lambda _: None,
) -> DmlResult:
    """Change columns of the matching rows as one version; no commit if none match.

    Args:
        store: The table's store.
        config: Settings of the engine.
        assignments: For each column an SQL expression, or a `ld.lit` or `ld.col` expression.
        request: The options.
        known: The last snapshot that the caller has of the table; may be outdated.
        remember: Receives the committed snapshot, or None if it is not known.

    Raises:
        ConfigError: There are no assignments, or two of one column.
        ColumnNotFoundError: An assignment names a column that the table does not have.
        ConstraintViolationError: A changed row violates a constraint; nothing is committed.

    Raises the errors of `delete_rows` too.
    """
    verb = Verb.start("UPDATE", store, config, request, known=known, remember=remember)
    if isinstance(verb, DmlResult):
        return verb
    update = _Update.plan(verb.snapshot, assignments, request.now)
    matches, found = verb.matches(), time.monotonic()
    if request.dry_run:
        return verb.would_change({"numUpdatedRows": matches.matched_rows}, matches)
    if not matches.all.num_rows:
        return verb.nothing({"numUpdatedRows": 0})
    with UncommittedFiles(store, None) as files:

        def again(added: pa.Table) -> RowChanges:
            more = find_matches(verb.snapshot, verb.predicate, added)
            return _update(verb, update, more, files)

        parameters = {"predicate": predicate_sql(verb.predicate)}
        first = _update(verb, update, matches, files).timed(verb.phases(found))
        return verb.commit(first, parameters, files, again=again)


def _update(
    verb: Verb, update: _Update, matches: MatchedFiles, files: UncommittedFiles
) -> RowChanges:
    """Write the new versions of the matching rows, and delete the old ones."""
    tracking, rows_before = update.tracking, update.num_rows
    with verb.matching_rows(matches.all, tracking) as rows:
        layout = tracking.layout(verb.layout())
        changed = files.add(write_data_files(update(rows), store=verb.store, layout=layout))
    deletion = plan_deletion(verb.snapshot, matches)
    written = verb.write_deletion(deletion, files)
    if has_change_feed(verb.snapshot):
        changes = _change_files(verb, matches.all, changed, update.assignments.enforcement)
        written = replace(written, changes=files.add(changes))
    return RowChanges(
        deletion=deletion,
        written=replace(written, adds=pa.concat_tables([changed, written.adds])),
        metrics={"numUpdatedRows": update.num_rows - rows_before},
    )


def _change_files(
    verb: Verb, matched: pa.Table, changed: pa.Table, enforcement: Enforcement
) -> pa.Table:
    """Write the rows before and after the update to change data files."""
    store, layout = verb.store, verb.layout()
    with (
        verb.matching_rows(matched) as old,
        read_added_rows(changed, verb.snapshot, enforcement) as new,
    ):
        return pa.concat_tables([
            write_change_files(old, "update_preimage", store=store, layout=layout),
            write_change_files(new, "update_postimage", store=store, layout=layout),
        ])  # fmt: skip


@dataclass(slots=True)
class _Update:
    """Changes rows, and counts them."""

    assignments: Assignments
    tracking: RowTracking
    num_rows: int = 0

    @classmethod
    def plan(cls, snapshot: SnapshotState, assigned: Mapping[str, Any], now: int) -> _Update:
        schema = snapshot.schema

        def bind(sql: str, to_type: DataType) -> BoundExpression:
            return bind_expression(sql, schema, to_type=to_type, strict=False, now=now)

        scope = ExpressionScope(schema=schema, bind=bind)
        definition = TableDefinition.of(snapshot)
        assignments = Assignments.plan(assigned, scope, definition, old=schema)
        return cls(assignments, RowTracking.of(snapshot))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column(self.tracking.row_id) if self.tracking.row_id else None
            yield self.tracking.updated(self.assignments(batch, batch), ids)
            self.num_rows += batch.num_rows
