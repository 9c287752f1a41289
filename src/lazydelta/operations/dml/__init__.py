"""DELETE, UPDATE and MERGE: find the matching rows, then delete or replace them in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.dml.assignments import assignment_tree
    from lazydelta.operations.dml.delete import delete_rows
    from lazydelta.operations.dml.matched_files import split_by_statistics
    from lazydelta.operations.dml.request import DmlRequest, DmlResult
    from lazydelta.operations.dml.row_deletion import (
        RowDeletion,
        extend_vectors,
        has_vectors,
        plan_counted_deletion,
        with_vectors,
    )
    from lazydelta.operations.dml.table_rules import has_change_feed, plain_rows
    from lazydelta.operations.dml.update import update_rows
    from lazydelta.operations.dml.verb import Verb
    from lazydelta.operations.dml.verb_changes import RowChanges, WrittenChanges

__all__ = [
    "DmlRequest",
    "DmlResult",
    "RowChanges",
    "RowDeletion",
    "Verb",
    "WrittenChanges",
    "assignment_tree",
    "delete_rows",
    "extend_vectors",
    "has_change_feed",
    "has_vectors",
    "plain_rows",
    "plan_counted_deletion",
    "split_by_statistics",
    "update_rows",
    "with_vectors",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "assignments": ("assignment_tree",),
        "delete": ("delete_rows",),
        "matched_files": ("split_by_statistics",),
        "request": ("DmlRequest", "DmlResult"),
        "row_deletion": (
            "RowDeletion",
            "extend_vectors",
            "has_vectors",
            "plan_counted_deletion",
            "with_vectors",
        ),
        "table_rules": ("has_change_feed", "plain_rows"),
        "update": ("update_rows",),
        "verb": ("Verb",),
        "verb_changes": ("RowChanges", "WrittenChanges"),
    },
)
