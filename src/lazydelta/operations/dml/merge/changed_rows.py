"""Pass 2 of a MERGE: read the touched rows, match them again, and make the new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._arrow import from_mask
from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.merge.joined_rows import joined_batch
from lazydelta.operations.dml.merge.merge_plan import choose_clauses, choose_pairs
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.scan.read import ChosenRows
from lazydelta.writer.columns import high_water_marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import pyarrow as pa

    from lazydelta.operations.dml.merge.matching import TouchedRows
    from lazydelta.operations.dml.merge.merge_plan import MergePlan, PlannedClause
    from lazydelta.operations.dml.merge.pairs import PairFinder
    from lazydelta.operations.dml.merge.source_chunks import SourceChunk
    from lazydelta.operations.dml.verb import Verb

__all__ = ["InsertedRows", "updated_by_source", "updated_matches"]


def updated_matches(
    verb: Verb, plan: MergePlan, touched: TouchedRows, finder: PairFinder
) -> Iterator[pa.RecordBatch]:
    """Yield the new rows of WHEN MATCHED UPDATE, in the table's schema."""
    columns, _ = plan.update_columns
    tracking = RowTracking.of(verb.snapshot)
    for batch in _touched(verb, touched, columns, tracking):
        for pairs in finder.pairs(batch):
            chosen = choose_pairs(plan.matched, pairs)
            for index, clause in enumerate(plan.matched):
                found = pairs.select(chosen == index)
                if clause.assignments is not None and len(found):
                    new = clause.assignments(found.batch, found.old)
                    yield _tracked(new, found.old, tracking)


def updated_by_source(
    verb: Verb, plan: MergePlan, touched: TouchedRows
) -> Iterator[pa.RecordBatch]:
    """Yield the new rows of WHEN NOT MATCHED BY SOURCE UPDATE, in the table's schema."""
    clauses, tracking = plan.not_matched_by_source, RowTracking.of(verb.snapshot)
    for batch in _touched(verb, touched, plan.by_source_columns(updates=True), tracking):
        rows = joined_batch(plan.target, batch, None)
        chosen = choose_clauses(clauses, rows)
        for index, clause in enumerate(clauses):
            mask = chosen == index
            if clause.assignments is not None and mask.any():
                keep = from_mask(mask)
                old = batch.filter(keep)
                yield _tracked(clause.assignments(rows.filter(keep), old), old, tracking)


class InsertedRows:
    """The rows of WHEN NOT MATCHED INSERT, and what they change of the table."""

    def __init__(self, plan: MergePlan, tracking: RowTracking) -> None:
        self._plan = plan
        self._tracking = tracking
        self.num_rows = 0
        self.high_water_marks: dict[str, int] = {}
        """The furthest value of each identity column."""

    def count(self, chunk: SourceChunk, matched: np.ndarray) -> None:
        """Count the rows that would be inserted."""
        for _, rows in self._unmatched(chunk, matched):
            self.num_rows += rows.num_rows

    def batches(self, chunk: SourceChunk, matched: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield new rows in the table's schema.

        Args:
            chunk: Rows of the source.
            matched: Which of them match a row of the table.
        """
        for clause, rows in self._unmatched(chunk, matched):
            if clause.assignments is None:  # a delete, which WHEN NOT MATCHED does not have
                continue
            new = clause.assignments(rows, None, self.num_rows)
            identity = clause.assignments.enforcement.identity
            self.high_water_marks = high_water_marks(identity, new, self.high_water_marks)
            self.num_rows += new.num_rows
            yield self._tracking.updated(new, None)

    def _unmatched(
        self, chunk: SourceChunk, matched: np.ndarray
    ) -> Iterator[tuple[PlannedClause, pa.RecordBatch]]:
        clauses = self._plan.not_matched
        if not clauses:
            return
        for start in range(0, chunk.rows.num_rows, tuning.INSERTED_ROWS):
            part = chunk.rows.slice(start, tuning.INSERTED_ROWS)
            other = part.filter(from_mask(~matched[start : start + part.num_rows]))
            rows = joined_batch(self._plan.source, None, other)
            chosen = choose_clauses(clauses, rows)
            for index, clause in enumerate(clauses):
                mask = chosen == index
                if mask.any():
                    yield clause, rows.filter(from_mask(mask))


def _touched(
    verb: Verb, touched: TouchedRows, columns: Sequence[str], tracking: RowTracking
) -> Iterator[pa.RecordBatch]:
    if not touched.updated:
        return
    chosen = ChosenRows(positions=touched.updated)
    with verb.chosen_rows(touched.files, chosen, columns, tracking=tracking) as rows:
        yield from rows


def _tracked(new: pa.RecordBatch, old: pa.RecordBatch, tracking: RowTracking) -> pa.RecordBatch:
    """Return changed rows with the ids of the old ones."""
    ids = None if tracking.row_id is None else old.column(tracking.row_id)
    return tracking.updated(new, ids)
