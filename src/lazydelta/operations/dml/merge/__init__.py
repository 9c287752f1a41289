"""MERGE: match the rows of a source with those of the table, then change them in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.dml.merge.clauses import MergeClause, MergeRequest, shown_sql
    from lazydelta.operations.dml.merge.condition import (
        Condition,
        split_condition,
        target_predicate,
    )
    from lazydelta.operations.dml.merge.joined_rows import JoinedSchema
    from lazydelta.operations.dml.merge.merge import METRIC_NAMES, merge_metrics
    from lazydelta.operations.dml.merge.merge_builder import MergeBuilder, MergeClauses
    from lazydelta.operations.dml.merge.merge_explanation import MergeExplanation
    from lazydelta.operations.dml.merge.merge_plan import (
        assigned_columns,
        evolved_definition,
        missing_fields,
    )
    from lazydelta.operations.dml.merge.source_chunks import MergeSource

__all__ = [
    "METRIC_NAMES",
    "Condition",
    "JoinedSchema",
    "MergeBuilder",
    "MergeClause",
    "MergeClauses",
    "MergeExplanation",
    "MergeRequest",
    "MergeSource",
    "assigned_columns",
    "evolved_definition",
    "merge_metrics",
    "missing_fields",
    "shown_sql",
    "split_condition",
    "target_predicate",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "clauses": ("MergeClause", "MergeRequest", "shown_sql"),
        "condition": ("Condition", "split_condition", "target_predicate"),
        "joined_rows": ("JoinedSchema",),
        "merge": ("METRIC_NAMES", "merge_metrics"),
        "merge_builder": ("MergeBuilder", "MergeClauses"),
        "merge_explanation": ("MergeExplanation",),
        "merge_plan": ("assigned_columns", "evolved_definition", "missing_fields"),
        "source_chunks": ("MergeSource",),
    },
)
