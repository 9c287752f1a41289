"""Late materialization: decode the predicate's columns, then only the matching rows of the others.

Pays where row groups hold few matches and the predicate's columns are the smaller part. Of the
other columns, the rows from the first to the last match of a batch are decoded, and the gap before
them where it is too short to skip (`DataFile.read_range`).

Of a remote file, a match fetches the other columns of its row group, after another round trip. So
all columns are fetched together where few files are read and the other columns are small, or where
most row groups match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazydelta._arrow import true_mask
from lazydelta.parquet import RowBatch
from lazydelta.scan import tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.parquet import DataFile
    from lazydelta.scan.read.row_projection import FileProjection

    Select = Callable[[RowBatch], pa.BooleanArray]
    RowRange = tuple[int, int]
    """Positions in the file of the first row, and after the last one."""

__all__ = ["LateMaterialization"]


class LateMaterialization:
    """Success rate of one read. Shared by threads without a lock: a lost count does no harm."""

    def __init__(self) -> None:
        self._tries = 0
        self._successes = 0

    def pays(
        self,
        file: DataFile,
        projection: FileProjection,
        row_groups: Sequence[int],
        *,
        num_files: int,
    ) -> bool:
        """Whether late materialization is expected to pay for row groups of a file.

        Args:
            file: The file.
            projection: The predicate's columns, and the others.
            row_groups: The row groups that may match.
            num_files: Number of files that were started.
        """
        if not row_groups or not projection.filter_columns or not projection.other_columns:
            return False
        is_evaluated = self._tries >= tuning.LATE_MIN_TRIES
        if is_evaluated and self._successes < self._tries * tuning.LATE_MIN_SUCCESS:
            return False
        if file.is_remote and num_files <= tuning.LATE_MIN_REMOTE_FILES:
            other_bytes = file.column_bytes(projection.other_columns, row_groups)
            if other_bytes <= tuning.LATE_MIN_REMOTE_BYTES:
                return False
        sample = row_groups[:1]
        filter_bytes = file.column_bytes(projection.filter_columns, sample)
        all_bytes = file.column_bytes(projection.columns, sample)
        return filter_bytes <= tuning.LATE_MAX_FILTER_BYTES * all_bytes

    def rows(
        self,
        file: DataFile,
        projection: FileProjection,
        row_ranges: Iterable[tuple[int, Sequence[RowRange]]],
        select: Select,
        *,
        batch_rows: int,
    ) -> Iterator[RowBatch]:
        """Yield the matching rows with all columns, in batches that may hold other rows too.

        Args:
            file: The file.
            projection: The predicate's columns, and the others.
            row_ranges: Row groups in ascending order, and the ranges of them that may match.
            select: Returns the mask of matching rows, given the predicate's columns.
            batch_rows: Maximum rows of a batch.
        """
        columns = projection.filter_columns
        if file.is_remote:
            row_ranges = self._fetched(file, projection, row_ranges, select, batch_rows)
        for group, ranges in row_ranges:
            others = _OtherColumns(file, projection.other_columns, group, batch_rows)
            last = ranges[-1][1] if ranges else 0
            for rows in file.read_ranges(columns, group, ranges, batch_rows=batch_rows):
                mask = select(rows)
                if mask.true_count:
                    yield from others.complete(rows.select(mask), last)
            self._tries += 1
            num_rows = file.metadata.row_group(group).num_rows
            paid_rows = 0 if file.is_remote else tuning.LATE_MAX_DECODED * num_rows
            self._successes += others.num_decoded <= paid_rows

    def _fetched(
        self,
        file: DataFile,
        projection: FileProjection,
        row_ranges: Iterable[tuple[int, Sequence[RowRange]]],
        select: Select,
        batch_rows: int,
    ) -> Iterator[tuple[int, Sequence[RowRange]]]:
        """Yield the row groups of a remote file that have a match.

        The predicate's columns of many row groups are fetched together, then the other columns of
        those with a match. The predicate's columns of these are decoded twice: up to the first
        match here, which costs less than a round trip for each row group.
        """
        ranges = dict(row_ranges)
        columns = projection.filter_columns

        def has_match(group: int) -> bool:
            batches = file.read(columns, [group], batch_rows=batch_rows)
            return any(select(rows).true_count for rows in batches)

        for groups in file.fetched(columns, list(ranges)):
            if len(groups) == 1:
                yield groups[0], ranges[groups[0]]
                continue
            matching = [group for group in groups if has_match(group)]
            self._tries += len(groups) - len(matching)
            self._successes += len(groups) - len(matching)
            for part in file.fetched(projection.other_columns, matching):
                yield from ((group, ranges[group]) for group in part)


class _OtherColumns:
    """The other columns of a row group, decoded on demand."""

    def __init__(self, file: DataFile, columns: Sequence[str], group: int, batch_rows: int) -> None:
        self._file = file
        self._columns = columns
        self._group = group
        self._batch_rows = batch_rows
        self._batches: Iterator[RowBatch] = iter(())
        self._current = RowBatch(file.first_row(group), 0, None)
        self._is_started = False
        self.num_decoded = 0
        """Rows decoded so far."""

    def complete(self, rows: RowBatch, last: int) -> Iterator[RowBatch]:
        """Yield rows from the first to the last match with all columns.

        Args:
            rows: The predicate's columns, with at least one match selected.
            last: The position after the last row that may be requested.
        """
        matches = np.flatnonzero(true_mask(rows.selected))
        position, end = rows.start + int(matches[0]), rows.start + int(matches[-1]) + 1
        gap = position - self._current.end
        skips = self._file.can_skip(self._columns, self._group, gap)
        if skips or not self._is_started:
            stop = end if rows.end == last else last
            self._batches = self._file.read_range(
                self._columns, self._group, position, stop, batch_rows=self._batch_rows
            )
            self.num_decoded += 0 if skips else gap
            self._is_started = True
        while position < end:
            while self._current.end <= position:
                self._current = next(self._batches)
                self.num_decoded += self._current.length
            complete = rows.part(position, min(end, self._current.end)).merge(self._current)
            yield complete
            position = complete.end
