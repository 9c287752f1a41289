"""Questions that an alteration asks of what is in the table already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import AlterationError, ConstraintViolationError
from lazydelta.scan import Scan
from lazydelta.writer import ROW_TRACKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.snapshot import SnapshotState
    from lazydelta.writer import Rule

__all__ = ["refuse_broken", "refuse_rows", "refuse_untracked_files"]


def refuse_rows(
    snapshot: SnapshotState, broken: Predicate, what: str, *, columns: Sequence[str]
) -> None:
    """Raise if some row matches; it is shown.

    Args:
        snapshot: The version to look through.
        broken: True for rows that break the rule.
        what: The rule, and that it is broken.
        columns: What to show of the row.

    Raises:
        ConstraintViolationError: There is such a row.
    """
    found = Scan(snapshot, where=broken, columns=columns, limit=1).to_arrow().to_pylist()
    if found:
        shown = ", ".join(f"{name}={value!r}" for name, value in found[0].items())
        raise ConstraintViolationError(snapshot.store.root, (f"{what}: there is a row {shown}",))


def refuse_broken(snapshot: SnapshotState, rule: Rule) -> None:
    """Raise if some row does not satisfy a rule; the columns it names are read in full.

    Raises:
        ConstraintViolationError: There is such a row; it is shown.
    """
    named = {path[0] for path in rule.test.columns} or set(snapshot.schema.names[:1])
    columns = [name for name in snapshot.schema.names if name in named]
    with Scan(snapshot, columns=columns).to_reader() as batches:
        for batch in batches:
            violation = rule.violation(batch)
            if violation is not None:
                raise ConstraintViolationError(snapshot.store.root, (violation,))


def refuse_untracked_files(snapshot: SnapshotState) -> None:
    """Raise if some file has rows without ids: giving them ids later is not implemented.

    Raises:
        AlterationError: There is such a file.
    """
    with Scan(snapshot).file_batches(all_fields=True) as batches:
        for batch in batches:
            ids = batch.column("base_row_id")
            if ids.null_count:
                at = ids.is_null().to_pylist().index(True)
                path = batch.column("path")[at].as_py()
                raise AlterationError(
                    snapshot.store.root,
                    f"set {ROW_TRACKING} = true",
                    f"rows that are there have no ids, those of {path!r} for one",
                    "Set it when a table is created, or while it is empty",
                )
