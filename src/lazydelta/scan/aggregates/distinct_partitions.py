"""Which partitions have rows: from the log where it tells, else from one file after the other.

A partition is known as soon as the log is certain that a file of it has a row of the scan. Of the
others some files are read, a few at first and more with each round, until one has a row or none
is left: so a table without statistics costs a file for each partition, not all of them.
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
from lazydelta.scan.aggregates.count_min_max import count
from lazydelta.scan.aggregates.file_statistics import FileStatistics
from lazydelta.scan.plan.partition_arrays import partition_strings, typed_partitions
from lazydelta.scan.read.reading import Reading
from lazydelta.schema import StructType, to_arrow_schema

if TYPE_CHECKING:
    from lazydelta.scan.read.reading import ReadableScan

__all__ = ["partition_values"]

_PENDING_FILES = 65_536
_DISTINCT_AT_ONCE = 65_536
_PLACE = "\0"
"""A column beside those of partitions, none of which has such a name."""
_ONLY_NULLS = pc.CountOptions(mode="only_null")


def partition_values(scan: ReadableScan) -> pa.Table:
    """Return the partitions in which a scan has rows, one row for each, typed.

    A table without partition columns has one row without columns, unless the scan has no rows.

    Raises:
        ConfigError: The scan has a limit: which rows it takes is left open.
    """
    if scan.limit is not None:
        raise ConfigError("limit", "partitions are of all rows; ask a scan without limit")
    known = FileStatistics(scan)
    if not scan.snapshot.partition_columns:
        one_row = known.view(())
        one_row.limit = 1
        row = pa.Array.from_buffers(pa.struct([]), count(one_row), [None])
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(row)])
    search = _Search(scan, known)
    for adds in known.planned(stats=False):
        search.consider(adds)
    return search.answer()


class _Search:
    """The partitions with rows, by the texts of their values, and files that may tell of more."""

    def __init__(self, scan: ReadableScan, known: FileStatistics) -> None:
        self._known = known
        self._snapshot = scan.snapshot
        self._names = tuple(scan.snapshot.partition_columns)
        fields = {item.name: item for item in scan.snapshot.schema}
        self._schema = to_arrow_schema(StructType(tuple(fields[name] for name in self._names)))
        self._found = empty_table(pa.schema([(name, pa.string()) for name in self._names]))
        self._different = 0  # of those found, when they were last compared
        self._pending: list[pa.RecordBatch] = []

    def consider(self, adds: pa.RecordBatch) -> None:
        """Learn what the log tells of files, and keep those of which it tells nothing."""
        live = self._known.live_rows(adds)
        zero = from_numpy(np.zeros(1, np.int64))[0]
        has_row = true_mask(pc.greater(live, zero)) & self._known.all_match(adds)
        has_none = true_mask(pc.equal(live, zero))
        self._note(self._texts(adds).filter(from_mask(has_row)))
        self._pending.append(adds.filter(from_mask(~has_row & ~has_none)))
        if sum(some.num_rows for some in self._pending) > _PENDING_FILES:
            self._look()

    def answer(self) -> pa.Table:
        """Return the partitions; two texts may be one value, as "1" and "01" are."""
        self._look()
        return _distinct(self._typed(_distinct(self._found)))

    def _note(self, texts: pa.Table) -> None:
        self._found = pa.concat_tables([self._found, _distinct(texts)])
        if self._found.num_rows > max(_DISTINCT_AT_ONCE, 2 * self._different):
            self._found = _distinct(self._found)
            self._different = self._found.num_rows

    def _look(self) -> None:
        """Read files until all of their partitions are known to have rows, or no file is left."""
        pending, self._pending, most = self._pending, [], 1
        while any(adds.num_rows for adds in pending):
            adds = pa.concat_batches(pending)
            texts = self._texts(adds)
            places, is_known = _places(texts, _distinct(self._found))
            unknown = places.filter(from_mask(~is_known))
            now = pc.list_slice(unknown, 0, most).flatten()
            tried = texts.take(now)
            places, has_rows = _places(self._typed(tried), self._read(adds.take(now)))
            self._note(tried.take(places.filter(from_mask(has_rows)).flatten().drop_null()))
            pending = [adds.take(pc.list_slice(unknown, most).flatten())]
            most *= 2

    def _read(self, adds: pa.RecordBatch) -> pa.Table:
        """Return the partitions of the rows of files."""
        found = empty_table(self._schema)
        view = self._known.view(self._names)
        options = ReadOptions(datetime_rebase_mode=view.snapshot.config.read.datetime_rebase_mode)
        with Stream(Reading(view, options, lambda: iter([adds])).batches()) as batches:
            for batch in batches:
                shown = pa.Table.from_batches([batch]).cast(self._schema)
                found = _distinct(pa.concat_tables([found, _distinct(shown)]))
        return found

    def _texts(self, adds: pa.RecordBatch) -> pa.Table:
        given = partition_strings(self._snapshot, adds.column("partitionValues"), self._names)
        return pa.table({name: given[name] for name in self._names})

    def _typed(self, texts: pa.Table) -> pa.Table:
        given = {name: texts.column(name).combine_chunks() for name in self._names}
        typed = typed_partitions(self._snapshot, given)
        return pa.Table.from_arrays([typed[name] for name in self._names], schema=self._schema)


def _distinct(rows: pa.Table) -> pa.Table:
    found = rows.group_by(rows.schema.names, use_threads=False).aggregate([])
    return found.select(rows.schema.names).cast(rows.schema)


def _places(rows: pa.Table, others: pa.Table) -> tuple[pa.ListArray, np.ndarray]:
    """Return for each distinct row of two tables where it is in the first, and if in the other."""
    at = from_numpy(np.arange(rows.num_rows, dtype=np.int64))
    nowhere = pa.nulls(others.num_rows, pa.int64())
    both = pa.concat_tables([rows.append_column(_PLACE, at), others.append_column(_PLACE, nowhere)])
    found = both.group_by(rows.schema.names, use_threads=False).aggregate(
        [(_PLACE, "list"), (_PLACE, "count", _ONLY_NULLS)]
    )
    lists = found.column(f"{_PLACE}_list").combine_chunks()
    return lists, np.asarray(found.column(f"{_PLACE}_count")) > 0
