"""One opened file of a read, and the strategies that return its rows in a single pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lazydelta.scan import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.formats import DeletedRows
    from lazydelta.parquet import DataFile, RowBatch
    from lazydelta.scan.read.chosen_rows import SelectedRows
    from lazydelta.scan.read.row_projection import FileInfo, FileProjection

__all__ = ["FileRead", "filtered_rows", "limited_rows", "selected_rows", "whole_file_rows"]


@dataclass(frozen=True, slots=True)
class FileRead:
    """An opened file, and what to read of it."""

    file: DataFile
    info: FileInfo
    projection: FileProjection
    row_groups: Sequence[int]
    rule: Predicate | None
    """The predicate over statistics; None skips nothing."""
    deleted: DeletedRows | SelectedRows | None
    batch_rows: int

    def mask(self, rows: RowBatch) -> pa.BooleanArray | None:
        """Return which rows match the predicate and are not deleted; None selects all."""
        matches = self.projection.matches(rows, self.info)
        kept = None if self.deleted is None else self.deleted.kept(rows.start, rows.length)
        if kept is None or matches is None:
            return matches if kept is None else kept
        return pc.and_kleene(kept, matches)

    def row_ranges(self, columns: Sequence[str]) -> Iterator[tuple[int, Sequence[tuple[int, int]]]]:
        """Yield the row groups, and the ranges of their rows that may match."""
        leaves, partition = self.projection.leaves, self.info.constants
        for group in self.row_groups:
            yield group, self.file.row_ranges(columns, group, self.rule, leaves, partition)


def whole_file_rows(read: FileRead, *, views: bool) -> Iterator[RowBatch]:
    """Return all rows that are not deleted; the decoder drops the others."""
    keep = None if read.deleted is None else read.deleted.kept
    return read.file.read(
        read.projection.columns, read.row_groups,
        batch_rows=read.batch_rows, keep=keep, views=views,
    )  # fmt: skip


def limited_rows(read: FileRead) -> Iterator[RowBatch]:
    """Yield rows as early as possible: with pyarrow, which does not validate all pages first."""
    rows = read.file.read(
        read.projection.columns, read.row_groups,
        batch_rows=read.batch_rows, native=False, first_rows=read.batch_rows,
    )  # fmt: skip
    return (batch.select(read.mask(batch)) for batch in rows)


def selected_rows(
    read: FileRead, selected: SelectedRows, *, needs_positions: bool
) -> Iterator[RowBatch]:
    """Yield the selected rows; row groups, and long ranges of pages, without one are not decoded.

    Args:
        read: The file.
        selected: The rows.
        needs_positions: Whether batches need the positions of their rows.
    """
    file, columns = read.file, read.projection.columns
    ranges = {group: _selected_ranges(read, selected, group) for group in read.row_groups}
    groups = [group for group, parts in ranges.items() if parts]
    num_rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    num_ranged = sum(end - start for group in groups for start, end in ranges[group])
    if not needs_positions and num_ranged >= tuning.SELECTED_MIN_SKIPPED * num_rows:
        yield from file.read(columns, groups, batch_rows=read.batch_rows, keep=selected.kept)
        return
    for part in file.fetched(columns, groups):
        for group in part:
            rows = (
                file.read_ranges(columns, group, ranges[group], batch_rows=read.batch_rows)
                if columns
                else file.read(columns, [group], batch_rows=read.batch_rows)
            )
            for batch in rows:
                yield batch.select(selected.kept(batch.start, batch.length))


def _selected_ranges(
    read: FileRead, selected: SelectedRows, group: int
) -> Sequence[tuple[int, int]]:
    start = read.file.first_row(group)
    end = start + read.file.metadata.row_group(group).num_rows
    return selected.ranges(start, end, min_gap=tuning.SELECTED_SKIP_ROWS)


def filtered_rows(read: FileRead) -> Iterator[RowBatch]:
    """Yield all columns of the rows that may match by page statistics, and select the matches."""
    for batch in _candidates(read):
        yield batch.select(read.mask(batch))


def _candidates(read: FileRead) -> Iterator[RowBatch]:
    file, columns = read.file, read.projection.columns
    row_ranges = list(read.row_ranges(columns)) if read.rule is not None and columns else []
    num_candidates = sum(end - start for _, ranges in row_ranges for start, end in ranges)
    num_rows = sum(file.metadata.row_group(index).num_rows for index in read.row_groups)
    if not row_ranges or num_candidates == num_rows:  # one pass over adjacent row groups
        yield from file.read(columns, read.row_groups, batch_rows=read.batch_rows)
        return
    for group, ranges in row_ranges:
        yield from file.read_ranges(columns, group, ranges, batch_rows=read.batch_rows)
