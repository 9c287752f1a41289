"""What a MERGE would do, from the log and the schema of the source alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.operations.dml.merge.merge_plan import MergePlan
from lazydelta.operations.dml.merge.target_files import target_files
from lazydelta.operations.dml.row_deletion import has_vectors, total_size
from lazydelta.schema import from_arrow_schema
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.operations.dml.merge.clauses import MergeRequest
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["MergeExplanation", "explain_merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeExplanation:
    """The plan of a MERGE; no row was read."""

    table: str
    version: int
    key: tuple[str, ...]
    """Equalities by which rows are matched. Without one, all pairs of rows are compared."""
    target_condition: str | None
    """The part of the condition that prunes files of the table."""
    residual_condition: str | None
    """The part of the condition that is evaluated on pairs of rows."""
    files: int
    """Files of the table that may be read; the keys of the source may rule out more."""
    bytes: int
    match_columns: tuple[str, ...]
    """Columns of the table that are read of these files."""
    update_columns: tuple[str, ...]
    """Columns of the table that are read of the rows to update."""
    deletion_vectors: bool
    """Whether changed rows are marked in deletion vectors, instead of files being rewritten."""
    new_columns: tuple[str, ...]
    """Columns that the table gets."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def explain_merge(
    store: Store,
    config: Config,
    source: pa.Schema,
    request: MergeRequest,
    *,
    known: SnapshotState | None = None,
) -> MergeExplanation:
    """Plan a MERGE without writing anything, or reading rows.

    Raises the errors of `merge_rows` that need no rows.
    """
    snapshot = load_snapshot(store, config, previous=known)
    plan = MergePlan.build(snapshot, request, from_arrow_schema(source))
    condition = plan.condition
    needs_all = bool(plan.not_matched_by_source)
    files = target_files(snapshot, None if needs_all else condition)
    match_columns = set(plan.match_columns[0])
    update_columns = set(plan.update_columns[0]) if plan.matched else set()
    if needs_all:
        match_columns |= set(plan.by_source_columns(updates=False))
        update_columns |= set(plan.by_source_columns(updates=True))
    return MergeExplanation(
        table=store.root,
        version=snapshot.version,
        key=tuple(
            f"{key.target} {'<=>' if key.null_safe else '='} {key.source}" for key in condition.keys
        ),
        target_condition=_sql(condition.target_only),
        residual_condition=_sql(condition.residual),
        files=files.num_rows,
        bytes=total_size(files),
        match_columns=tuple(sorted(match_columns)),
        update_columns=tuple(sorted(update_columns)),
        deletion_vectors=has_vectors(snapshot),
        new_columns=tuple(
            field.name
            for field in plan.definition.schema
            if snapshot.schema.get(field.name) is None
        ),
    )


def _sql(node: Any) -> str | None:
    return None if node is None else str(node)
