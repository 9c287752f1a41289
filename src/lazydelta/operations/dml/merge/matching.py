"""Pass 1 of a MERGE: which rows of the table change, by which kind of clause.

Reads only the columns that decide: those of the key and of conditions. The result is a bitmap of
positions for each touched file. Rows are matched again when they are changed, which costs little,
because only touched rows are read then; so matches take no memory for each row.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import empty_table, from_numpy, to_numpy
from lazydelta.errors import MultipleMatchesError
from lazydelta.operations.dml.matched_files import split_matches
from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.merge.joined_rows import evaluate_rows, joined_batch
from lazydelta.operations.dml.merge.key_bounds import KeyBounds
from lazydelta.operations.dml.merge.merge_plan import choose_clauses, choose_pairs
from lazydelta.operations.dml.merge.pairs import PairFinder
from lazydelta.operations.dml.merge.target_files import has_key_bounds, target_files
from lazydelta.operations.dml.table_rules import plain_rows
from lazydelta.scan import Scan
from lazydelta.scan.read import read_files
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.operations.dml.matched_files import MatchedFiles
    from lazydelta.operations.dml.merge.merge_plan import MergePlan
    from lazydelta.operations.dml.merge.pairs import Pairs
    from lazydelta.operations.dml.merge.source_chunks import SourceChunk
    from lazydelta.snapshot import SnapshotState

__all__ = ["FILE", "ROW", "Matching", "TouchedRows"]

FILE, ROW = "__lazydelta_file", "__lazydelta_row"


@dataclass(slots=True)
class TouchedRows:
    """Rows to change, as bitmaps of positions by the decoded path of their file."""

    files: pa.Table
    """Add actions of the files."""
    updated: dict[str, Any] = field(default_factory=dict)
    deleted: dict[str, Any] = field(default_factory=dict)


class Matching:
    """Matches the table with the chunks of a source, one after the other."""

    def __init__(self, snapshot: SnapshotState, plan: MergePlan) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._files: dict[str, pa.Table] = {}  # of one row, by path
        self._changed: dict[str, Any] = defaultdict(_bitmap)
        self._matched: dict[str, Any] = defaultdict(_bitmap)
        self.bounds = KeyBounds(plan.condition)
        self.matched_sources: dict[int, np.ndarray] = {}
        """For each chunk which of its rows match a row of the table."""
        self.reads_all: int = 0
        """The number of files, if nothing can tell which of them have keys of the source."""
        self.counts: dict[tuple[str, str], int] = defaultdict(int)
        """Changed rows by kind of clause and action."""

    def chunk(self, chunk: SourceChunk) -> tuple[TouchedRows, PairFinder]:
        """Find the rows that match a chunk, and those of them that change.

        Raises:
            MultipleMatchesError: Several source rows change one row.
        """
        plan, finder = self._plan, self._finder(chunk)
        columns, _ = plan.match_columns
        self.bounds.add(finder.keys)
        matched = self.matched_sources[chunk.index] = np.zeros(chunk.rows.num_rows, np.bool_)
        files = target_files(self._snapshot, plan.condition, finder.index)
        touched = TouchedRows(files)
        if not chunk.index and not self._can_prune(files):
            self.reads_all = files.num_rows
        if not chunk.rows.num_rows:
            return TouchedRows(files.slice(0, 0)), finder
        for path, positions, batch in self._rows(files, columns, plan.condition.target_only):
            for pairs in finder.pairs(batch):
                matched[pairs.source_rows] = True
                if plan.not_matched_by_source:
                    self._matched[path] |= _bitmap(positions[pairs.target_rows])
                self._choose(touched, path, positions, pairs)
        return self._remembered(touched), finder

    def has_match(self, chunk: SourceChunk, files: pa.Table) -> bool:
        """Whether a row of other files matches a chunk, whether or not it would change."""
        condition, finder = self._plan.condition, self._finder(chunk)
        columns, _ = self._plan.match_columns
        if not chunk.rows.num_rows:
            return False
        files = target_files(self._snapshot, condition, finder.index, files=files)
        rows = self._rows(files, columns, condition.target_only)
        return any(len(pairs) for _, _, batch in rows for pairs in finder.pairs(batch))

    def _can_prune(self, files: pa.Table) -> bool:
        condition = self._plan.condition
        if files.num_rows < 2 or condition.target_only is not None:
            return True
        return has_key_bounds(self._snapshot, condition, files.slice(0, tuning.FILES_WITH_BOUNDS))

    def _finder(self, chunk: SourceChunk) -> PairFinder:
        plan = self._plan
        names = {*plan.match_columns[1], *plan.update_columns[1]}
        return PairFinder(plan.condition, plan.pairs, chunk.rows, sorted(names))

    def not_matched_by_source(self) -> TouchedRows:
        """Find the rows that match no source row, and those of them that change."""
        plan, clauses = self._plan, self._plan.not_matched_by_source
        touched = TouchedRows(target_files(self._snapshot, predicates=plan.by_source_predicates()))
        columns = plan.by_source_columns(updates=False)
        for path, positions, batch in self._rows(touched.files, columns, None):
            chosen = choose_clauses(clauses, joined_batch(plan.target, batch, None))
            if path in self._matched:
                others = _bitmap(positions) - self._matched[path]
                chosen[~np.isin(positions, np.frombuffer(others.to_array(), np.uint64))] = -1
            for index, clause in enumerate(clauses):
                rows = _bitmap(positions[chosen == index])
                self._add(touched, path, rows, ("not_matched_by_source", clause.action))
        return self._remembered(touched)

    def result(self) -> MatchedFiles:
        """Return all files with changed rows."""
        paths = sorted(self._files)
        files = pa.concat_tables([empty_table(ADDS), *(self._files[path] for path in paths)])
        return split_matches(self._snapshot, files, [self._changed[path] for path in paths])

    def _rows(
        self, files: pa.Table, columns: Sequence[str], where: Predicate | None
    ) -> Iterator[tuple[str, np.ndarray, pa.RecordBatch]]:
        """Yield path, positions and columns of rows, each batch of one file."""
        options = replace(
            plain_rows(self._snapshot), file_column_name=FILE, row_index_column=ROW, ordered=False
        )
        scan = Scan(self._snapshot, where=where)
        with read_files(scan, files.to_batches(), columns=columns, options=options) as batches:
            for batch in batches:
                positions = to_numpy(batch.column(ROW)).astype(np.uint64)
                yield batch.column(FILE)[0].as_py(), positions, batch.drop_columns([FILE])

    def _choose(self, touched: TouchedRows, path: str, positions: np.ndarray, pairs: Pairs) -> None:
        """Record the rows of pairs that a WHEN MATCHED clause changes."""
        clauses = self._plan.matched
        if not clauses:
            return
        chosen = choose_pairs(clauses, pairs)
        if not self._plan.request.allows_duplicates:
            self._refuse_duplicates(path, positions, pairs, chosen >= 0)
        for index, clause in enumerate(clauses):
            rows = _bitmap(positions[pairs.target_rows[chosen == index]])
            if self._plan.request.allows_duplicates:
                rows -= self._changed[path]
            self._add(touched, path, rows, ("matched", clause.action))

    def _refuse_duplicates(
        self, path: str, positions: np.ndarray, pairs: Pairs, relevant: np.ndarray
    ) -> None:
        rows = pairs.target_rows[relevant]
        again = _bitmap(positions[rows]) & self._changed[path]
        if again:
            (where,) = np.flatnonzero(positions[rows] == again.min())[:1]
        else:
            repeated = np.flatnonzero(np.diff(rows) == 0)  # pairs are sorted by target row
            if not len(repeated):
                return
            where = repeated[0]
        pair = int(np.flatnonzero(relevant)[where])
        row = pairs.batch.slice(pair, 1)
        keys = self._plan.condition.keys
        shown = ", ".join(f"{key.target} = {evaluate_rows(key.target, row)[0]}" for key in keys)
        table = self._snapshot.store.root
        raise MultipleMatchesError(table, self._plan.condition.sql, shown or f"a row of {path}")

    def _add(self, touched: TouchedRows, path: str, rows: Any, what: tuple[str, str]) -> None:
        if not rows:
            return
        self.counts[what] += len(rows)
        self._changed[path] |= rows
        kind = touched.updated if what[1] == "update" else touched.deleted
        kind[path] = kind.get(path, _bitmap()) | rows

    def _shown(self, files: pa.Table) -> list[str]:
        """Return the decoded paths of files."""
        paths = self._snapshot.resolver.decoded(files.column("path").combine_chunks())
        decoded: list[str] = paths.to_pylist()
        return decoded

    def _remembered(self, touched: TouchedRows) -> TouchedRows:
        """Keep the add actions of touched files, and only those."""
        kept = []
        for index, path in enumerate(self._shown(touched.files)):
            if path in touched.updated or path in touched.deleted:
                self._files.setdefault(path, touched.files.slice(index, 1))
                kept.append(index)
        touched.files = touched.files.take(from_numpy(np.asarray(kept, np.int64)))
        return touched


def _bitmap(positions: Any = ()) -> Any:
    from pyroaring import BitMap64

    return BitMap64(positions)
