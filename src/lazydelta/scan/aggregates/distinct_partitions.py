"""Distinct partitions with matching rows, from statistics where possible.

A partition is confirmed as soon as statistics prove that one of its files has a matching row. Files
of the other partitions are read in rounds, one per partition at first and twice as many in each
round, until one has a row. So a table without statistics costs about one file per partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import empty_table, from_mask, from_numpy, true_mask
from lazydelta._stream import Stream
from lazydelta.config import ReadOptions
from lazydelta.errors import ConfigError
from lazydelta.scan.aggregates import tuning
from lazydelta.scan.aggregates.count_min_max import count
from lazydelta.scan.aggregates.file_statistics import FileStatistics
from lazydelta.scan.plan.partition_arrays import partition_strings, typed_partitions
from lazydelta.scan.read.reading import Reading
from lazydelta.schema import StructType, to_arrow_schema

if TYPE_CHECKING:
    from lazydelta.scan.read.reading import ReadableScan

__all__ = ["partition_values"]

_POSITION = "\0"
"""Name of a helper column; no partition column can have it."""
_COUNT_NULLS = pc.CountOptions(mode="only_null")


def partition_values(scan: ReadableScan) -> pa.Table:
    """Return the partitions in which a scan has rows: one row of typed values each.

    A table without partition columns has one row without columns, unless the scan has no rows.

    Raises:
        ConfigError: The scan has a limit, which does not define which rows it returns.
    """
    if scan.limit is not None:
        raise ConfigError("limit", "partition_values() needs all rows; use a scan without a limit")
    statistics = FileStatistics(scan)
    if not scan.snapshot.partition_columns:
        one_row = statistics.view(())
        one_row.limit = 1
        row = pa.Array.from_buffers(pa.struct([]), count(one_row), [None])
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(row)])
    search = _Search(scan, statistics)
    for adds in statistics.planned_adds(stats=False):
        search.add_files(adds)
    return search.result()


class _Search:
    """Partitions confirmed so far, as strings of the log, and files that may add others."""

    def __init__(self, scan: ReadableScan, statistics: FileStatistics) -> None:
        self._statistics = statistics
        self._snapshot = scan.snapshot
        self._names = tuple(scan.snapshot.partition_columns)
        fields = {field.name: field for field in scan.snapshot.schema}
        self._schema = to_arrow_schema(StructType(tuple(fields[name] for name in self._names)))
        self._confirmed = empty_table(pa.schema([(name, pa.string()) for name in self._names]))
        self._distinct_rows = 0  # of `_confirmed`, when duplicates were last removed
        self._pending: list[pa.RecordBatch] = []

    def add_files(self, adds: pa.RecordBatch) -> None:
        """Confirm partitions by statistics; undecided files become pending."""
        live = self._statistics.live_rows(adds)
        zero = from_numpy(np.zeros(1, np.int64))[0]
        has_row = true_mask(pc.greater(live, zero)) & self._statistics.all_match(adds)
        is_empty = true_mask(pc.equal(live, zero))
        self._confirm(self._strings(adds).filter(from_mask(has_row)))
        self._pending.append(adds.filter(from_mask(~has_row & ~is_empty)))
        if sum(batch.num_rows for batch in self._pending) > tuning.MAX_PENDING_FILES:
            self._read_pending()

    def result(self) -> pa.Table:
        """Return the partitions; different strings may be equal values, such as "1" and "01"."""
        self._read_pending()
        return _distinct(self._typed(_distinct(self._confirmed)))

    def _confirm(self, partitions: pa.Table) -> None:
        self._confirmed = pa.concat_tables([self._confirmed, _distinct(partitions)])
        if self._confirmed.num_rows > max(tuning.DISTINCT_BATCH_ROWS, 2 * self._distinct_rows):
            self._confirmed = _distinct(self._confirmed)
            self._distinct_rows = self._confirmed.num_rows

    def _read_pending(self) -> None:
        """Read pending files until each of their partitions is confirmed or has no file left."""
        pending, self._pending, per_partition = self._pending, [], 1
        while any(adds.num_rows for adds in pending):
            adds = pa.concat_batches(pending)
            strings = self._strings(adds)
            positions, is_confirmed = _group_positions(strings, _distinct(self._confirmed))
            open_groups = positions.filter(from_mask(~is_confirmed))
            files = pc.list_slice(open_groups, 0, per_partition).flatten()
            candidates = strings.take(files)
            positions, has_rows = _group_positions(
                self._typed(candidates), self._read(adds.take(files))
            )
            confirmed = positions.filter(from_mask(has_rows)).flatten().drop_null()
            self._confirm(candidates.take(confirmed))
            pending = [adds.take(pc.list_slice(open_groups, per_partition).flatten())]
            per_partition *= 2

    def _read(self, adds: pa.RecordBatch) -> pa.Table:
        """Return the distinct partitions of the matching rows of files."""
        partitions = empty_table(self._schema)
        view = self._statistics.view(self._names)
        options = ReadOptions(datetime_rebase_mode=view.snapshot.config.read.datetime_rebase_mode)
        with Stream(Reading(view, options, lambda: iter([adds])).batches()) as batches:
            for batch in batches:
                rows = pa.Table.from_batches([batch]).cast(self._schema)
                partitions = _distinct(pa.concat_tables([partitions, _distinct(rows)]))
        return partitions

    def _strings(self, adds: pa.RecordBatch) -> pa.Table:
        columns = partition_strings(self._snapshot, adds.column("partitionValues"), self._names)
        return pa.table({name: columns[name] for name in self._names})

    def _typed(self, strings: pa.Table) -> pa.Table:
        columns = {name: strings.column(name).combine_chunks() for name in self._names}
        typed = typed_partitions(self._snapshot, columns)
        return pa.Table.from_arrays([typed[name] for name in self._names], schema=self._schema)


def _distinct(rows: pa.Table) -> pa.Table:
    groups = rows.group_by(rows.schema.names, use_threads=False).aggregate([])
    return groups.select(rows.schema.names).cast(rows.schema)


def _group_positions(rows: pa.Table, others: pa.Table) -> tuple[pa.ListArray, np.ndarray]:
    """Return the positions of each distinct row in `rows`, and whether `others` has it."""
    positions = from_numpy(np.arange(rows.num_rows, dtype=np.int64))
    nulls = pa.nulls(others.num_rows, pa.int64())
    both = pa.concat_tables(
        [rows.append_column(_POSITION, positions), others.append_column(_POSITION, nulls)]
    )
    groups = both.group_by(rows.schema.names, use_threads=False).aggregate(
        [(_POSITION, "list"), (_POSITION, "count", _COUNT_NULLS)]
    )
    lists = groups.column(f"{_POSITION}_list").combine_chunks()
    return lists, np.asarray(groups.column(f"{_POSITION}_count")) > 0
