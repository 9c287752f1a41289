"""MERGE: match the rows of a source with those of the table, then change them in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.dml.merge.clauses import MergeClause, MergeRequest
    from lazydelta.operations.dml.merge.merge import merge_rows
    from lazydelta.operations.dml.merge.merge_builder import MergeBuilder
    from lazydelta.operations.dml.merge.merge_explanation import MergeExplanation, explain_merge
    from lazydelta.operations.dml.merge.source_chunks import MergeSource

__all__ = [
    "MergeBuilder",
    "MergeClause",
    "MergeExplanation",
    "MergeRequest",
    "MergeSource",
    "explain_merge",
    "merge_rows",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "clauses": ("MergeClause", "MergeRequest"),
        "merge": ("merge_rows",),
        "merge_builder": ("MergeBuilder",),
        "merge_explanation": ("MergeExplanation", "explain_merge"),
        "source_chunks": ("MergeSource",),
    },
)
