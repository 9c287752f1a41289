"""Validate the existing rows and files of a table before its metadata changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import AlterationError, ConstraintViolationError
from lazydelta.scan import Scan
from lazydelta.writer.properties import ROW_TRACKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.snapshot import SnapshotState
    from lazydelta.writer.enforcement import Constraint

__all__ = ["check_all_files_tracked", "check_constraint_holds", "check_no_match"]


def check_no_match(
    snapshot: SnapshotState, predicate: Predicate, reason: str, *, columns: Sequence[str]
) -> None:
    """Raise if a row matches a predicate.

    Args:
        snapshot: The version to scan.
        predicate: True for rows that violate the constraint.
        reason: The violation, for the error.
        columns: Columns of the row for the error.

    Raises:
        ConstraintViolationError: A row matches.
    """
    rows = Scan(snapshot, where=predicate, columns=columns, limit=1).to_arrow().to_pylist()
    if rows:
        values = ", ".join(f"{name}={value!r}" for name, value in rows[0].items())
        raise ConstraintViolationError(snapshot.store.root, (f"{reason}, as in the row {values}",))


def check_constraint_holds(snapshot: SnapshotState, constraint: Constraint) -> None:
    """Raise if a row violates a constraint; scans the columns of the constraint.

    Raises:
        ConstraintViolationError: A row violates it.
    """
    used = {path[0] for path in constraint.test.columns} or set(snapshot.schema.names[:1])
    columns = [name for name in snapshot.schema.names if name in used]
    with Scan(snapshot, columns=columns).to_reader() as batches:
        for batch in batches:
            violation = constraint.violation(batch)
            if violation is not None:
                raise ConstraintViolationError(snapshot.store.root, (violation,))


def check_all_files_tracked(snapshot: SnapshotState) -> None:
    """Raise if a file has no base row id: backfilling row ids is not implemented.

    Raises:
        AlterationError: A file has none.
    """
    with Scan(snapshot).file_batches(all_fields=True) as batches:
        for batch in batches:
            ids = batch.column("base_row_id")
            if ids.null_count:
                index = ids.is_null().to_pylist().index(True)
                path = batch.column("path")[index].as_py()
                raise AlterationError(
                    snapshot.store.root,
                    f"set {ROW_TRACKING} = true",
                    f"existing rows have no row ids, for example those of {path!r}",
                    "Set it when the table is created, or while it is empty",
                )
