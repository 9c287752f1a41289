"""Row-level concurrency: adapt a verb to a winning commit that touched the same files.

The result is what the verb would do after the winning commit (docs/adr/0038):

- A file that both mark gets the union of both deletion vectors, if their rows are disjoint.
- Files that the winner added are searched for matching rows, and these are changed too.
- Anything else that the winner did to a file with matching rows stays a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._failpoints import failpoint
from lazydelta.formats import DeletionVectorGroup
from lazydelta.operations.dml.row_deletion import write_vectors
from lazydelta.scan.read import FileStores
from lazydelta.transaction import ADDS
from lazydelta.writer.files import DeletionVectorWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lazydelta.formats import DeletedRows
    from lazydelta.operations.dml.row_deletion import RowDeletion
    from lazydelta.operations.dml.verb_changes import RowChanges
    from lazydelta.operations.uncommitted_files import UncommittedFiles
    from lazydelta.snapshot import SnapshotState
    from lazydelta.transaction import Transaction, WinningCommit

__all__ = ["RowRebase"]


@dataclass(slots=True, kw_only=True)
class RowRebase:
    """The changes of a verb, rebased over each winning commit. A rebase hook of `commit`."""

    snapshot: SnapshotState
    changes: RowChanges
    plan: Callable[[RowChanges], Transaction]
    """Returns the transaction of changes."""
    again: Callable[[pa.Table], RowChanges | None] | None
    """Runs the verb on files that a winner added; None is a conflict. If it is None itself, added
    files are a conflict."""
    load_rows: Callable[[Sequence[Any]], Sequence[Any]]
    """Returns bitmaps of rows that another process has, and bitmaps as they are."""
    files: UncommittedFiles
    allows_deletes: bool
    """Whether the changes stay valid if the winner deletes other rows."""
    transaction: Transaction = field(init=False)
    """Commits the changes."""

    def __post_init__(self) -> None:
        """Plan the first transaction."""
        self.transaction = self.plan(self.changes)

    def __call__(self, winner: WinningCommit) -> Transaction | None:
        """Return the transaction for the version after a winning commit; None is a conflict."""
        if len(winner.removed) and not self.allows_deletes:
            return None
        deletion, added = self.changes.deletion, _table(winner.adds)
        added_keys, removed_keys = self._keys(added), self.snapshot.resolver.keys(winner.removed)
        touched = pa.concat_arrays([added_keys, removed_keys])
        if _any_in(self._keys(deletion.removed), touched):
            return None
        marked_keys = self._keys(deletion.marked)
        is_changed = pc.is_in(marked_keys, value_set=touched)
        positions = pc.index_in(marked_keys.filter(is_changed), value_set=added_keys)
        if positions.null_count:  # the winner removed a file that this verb marks
            return None
        before = _part(deletion, is_changed)
        before = replace(before, marked_rows=tuple(self.load_rows(before.marked_rows)))
        after = replace(before, marked=added.take(positions).combine_chunks())
        if not self._only_deletes_other_rows(before, after):
            return None
        others = added.filter(pc.invert(pc.is_in(added_keys, value_set=marked_keys)))
        more = None
        if others.num_rows:
            more = None if self.again is None else self.again(others)
            if more is None:
                return None
        changes = self._with_vectors(pc.invert(is_changed), after)
        self.changes = changes if more is None else changes.joined(more)
        planned = self.plan(self.changes)
        self.transaction = replace(planned, txn_id=self.transaction.txn_id)
        failpoint("verb-rebased")
        return self.transaction

    def _keys(self, files: pa.Table) -> pa.Array:
        return self.snapshot.resolver.keys(files.column("path").combine_chunks())

    def _only_deletes_other_rows(self, before: RowDeletion, after: RowDeletion) -> bool:
        """Whether the new vectors delete more rows than the old ones, and none of the verb's."""
        vectors = zip(self._vectors(before.marked), self._vectors(after.marked), strict=True)
        for rows, (old, new) in zip(after.marked_rows, vectors, strict=True):
            if new is None:
                if old is not None:
                    return False  # deleted rows are back, and may match
            elif not new.extends(old, without=rows):
                return False
        return True

    def _vectors(self, files: pa.Table) -> Iterable[DeletedRows | None]:
        columns = (files.column(name).to_pylist() for name in ("path", "deletionVector"))
        group = DeletionVectorGroup(
            list(zip(*columns, strict=True)),
            self.snapshot.resolver,
            FileStores(self.snapshot.store, self.snapshot.config).store,
        )
        return map(group.take, range(files.num_rows))

    def _with_vectors(self, is_kept: pa.Array, after: RowDeletion) -> RowChanges:
        """Write the vectors of files that the winner marked too, and return all changes."""
        deletion, written = self.changes.deletion, self.changes.written
        writer = DeletionVectorWriter(self.snapshot.store)
        try:
            marked = write_vectors(self.snapshot, after, writer)
        finally:
            self.files.add_paths(writer.paths)
        kept = _part(deletion, is_kept)
        counts = [kept.marked_counts, after.marked_counts]
        return replace(
            self.changes,
            deletion=replace(
                deletion,
                marked=pa.concat_tables([kept.marked, after.marked]).combine_chunks(),
                marked_rows=(*kept.marked_rows, *after.marked_rows),
                marked_counts=pa.concat_arrays(counts),
            ),
            written=replace(
                written, marked=pa.concat_tables([written.marked.filter(is_kept), marked])
            ),
        )


def _part(deletion: RowDeletion, mask: pa.Array) -> RowDeletion:
    """Return a deletion with some of its marked files."""
    kept = zip(deletion.marked_rows, mask.to_pylist(), strict=True)
    return replace(
        deletion,
        marked=deletion.marked.filter(mask).combine_chunks(),
        marked_rows=tuple(rows for rows, keep in kept if keep),
        marked_counts=_array(deletion.marked_counts).filter(mask),
    )


def _table(adds: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([adds]).select(ADDS.names).cast(ADDS).combine_chunks()


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _any_in(keys: pa.Array, others: pa.Array) -> bool:
    return pc.any(pc.is_in(keys, value_set=others)).as_py() is True
