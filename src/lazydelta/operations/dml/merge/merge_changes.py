"""Change data files of a MERGE: rows before and after updates, deleted and inserted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta._arrow import empty_table
from lazydelta.scan.read import ChosenRows
from lazydelta.transaction import CHANGE_FILES
from lazydelta.writer.files import read_added_rows, write_change_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.operations.dml.merge.matching import TouchedRows
    from lazydelta.operations.dml.merge.merge_plan import MergePlan
    from lazydelta.operations.dml.verb import Verb
    from lazydelta.writer.files import ChangeType, DataLayout

__all__ = ["write_merge_changes"]


def write_merge_changes(
    verb: Verb,
    plan: MergePlan,
    touched: Sequence[TouchedRows],
    changed: pa.Table,
    inserted: pa.Table,
) -> pa.Table:
    """Write change data files, and return their cdc actions.

    Args:
        verb: The run of the operation.
        plan: The planned operation.
        touched: The rows that change.
        changed: Add actions of the files with changed rows.
        inserted: Add actions of the files with new rows.
    """
    old = verb.layout()
    after, new = plan.definition, plan.layout(verb)
    files = [empty_table(CHANGE_FILES)]

    def write(rows: Iterator[pa.RecordBatch], kind: ChangeType, layout: DataLayout) -> None:
        files.append(write_change_files(rows, kind, store=verb.store, layout=layout))

    write(_old_rows(verb, touched, [part.updated for part in touched]), "update_preimage", old)
    write(_old_rows(verb, touched, [part.deleted for part in touched]), "delete", old)
    for adds, kind in ((changed, "update_postimage"), (inserted, "insert")):
        with read_added_rows(adds, verb.snapshot, after) as rows:
            write(rows, kind, new)  # type: ignore[arg-type]
    return pa.concat_tables(files)


def _old_rows(
    verb: Verb, touched: Sequence[TouchedRows], positions: Sequence[Mapping[str, Any]]
) -> Iterator[pa.RecordBatch]:
    for part, rows in zip(touched, positions, strict=True):
        if rows:
            with verb.chosen_rows(part.files, ChosenRows(positions=rows)) as batches:
                yield from batches
