"""UPDATE: write changed rows to new files, and delete their old versions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.expressions import bind_expression
from lazydelta.operations.dml.assignments import Assignments, ExpressionScope
from lazydelta.operations.dml.request import DmlResult
from lazydelta.operations.dml.row_deletion import plan_deletion
from lazydelta.operations.dml.table_rules import has_change_feed, refuse_row_tracking
from lazydelta.operations.dml.verb import Verb, predicate_sql
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.writer.columns import TableDefinition
from lazydelta.writer.files import read_added_rows, write_change_files, write_data_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lazydelta.config import Config
    from lazydelta.expressions import BoundExpression
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
    update = _Update.plan(verb.snapshot, assignments)
    refuse_row_tracking(verb.snapshot, "UPDATE", "update the table with Spark")
    matches = verb.matches()
    deletion = plan_deletion(verb.snapshot, matches)
    metrics: dict[str, int | None] = {"numUpdatedRows": matches.matched_rows}
    if request.dry_run:
        shown = {name: value for name, value in metrics.items() if value is not None}
        return verb.nothing({**shown, **verb.file_metrics(deletion)}, dry_run=True)
    if not matches.all.num_rows:
        return verb.nothing({"numUpdatedRows": 0})
    with UncommittedFiles(store, None) as files:
        with verb.matching_rows(matches.all) as rows:
            changed = write_data_files(update(rows), store=store, layout=verb.layout())
        metrics["numUpdatedRows"] = update.num_rows
        files.add(changed)
        written = verb.write_deletion(deletion, files)
        if has_change_feed(verb.snapshot):
            changes = _change_files(verb, matches.all, changed, update.assignments.enforcement)
            written = replace(written, changes=files.add(changes))
        written = replace(written, adds=pa.concat_tables([changed, written.adds]))
        parameters = {"predicate": predicate_sql(verb.predicate)}
        return verb.commit(deletion, written, parameters, metrics, files)


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
    num_rows: int = 0

    @classmethod
    def plan(cls, snapshot: SnapshotState, assigned: Mapping[str, Any]) -> _Update:
        schema = snapshot.schema

        def bind(sql: str, to_type: DataType) -> BoundExpression:
            return bind_expression(sql, schema, to_type=to_type)

        scope = ExpressionScope(schema=schema, bind=bind)
        definition = TableDefinition(
            table=snapshot.store.root,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            schema=schema,
        )
        return cls(Assignments.plan(assigned, scope, definition, old=schema))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self.assignments(batch, batch)
            self.num_rows += batch.num_rows
