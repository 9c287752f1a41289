"""Bins of a table whose log executors replay: the driver has those of one batch at a time.

A first task considers each file alone, and sends the candidates to the task of their partition,
which packs them with the code of one process. That task has all candidates of its partitions in
memory, a few hundred bytes each.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy
from lazydelta.formats import num_records
from lazydelta.operations.optimize import FILES, Bin, SelectedBins, fitting, partition_codes
from lazydelta.protocol.features import supported_features
from lazydelta.protocol.schemas import ADD
from lazydelta.scan.plan import partition_strings
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import serialize_table, spark_schema
from lazydelta.spark.conf import replay_settings
from lazydelta.spark.jobs import named_task
from lazydelta.spark.planner import choose_replay, distributed_log_replay
from lazydelta.spark.spark_releases import repartition_by_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from lazydelta.expressions import Predicate
    from lazydelta.operations.optimize import Clustering, Selection
    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.maintenance.open_table import OpenTable
    from lazydelta.spark.serialized_snapshot import SerializedSnapshot

__all__ = ["BinSelection"]

_STATS = ("stats", "stats_parsed")
_SLOTS = pa.schema([("slot", pa.int32()), ("files", pa.binary())])
_BINS = pa.schema([
    ("files", pa.binary()), ("average", pa.float64()),
    ("depths", pa.list_(pa.field("element", pa.float64()))), ("count", pa.int64()),
])  # fmt: skip
"""A bin, or the overlap depths of the files of a task, and their number."""


@dataclass(frozen=True, kw_only=True)
class BinSelection:
    """The selection of bins on executors."""

    table: OpenTable
    snapshot: SnapshotState
    predicate: Predicate | None
    task: _SelectTask

    @classmethod
    def of(
        cls,
        table: OpenTable,
        snapshot: SnapshotState,
        predicate: Predicate | None,
        selection: Selection | None,
        clustering: Clustering | None = None,
    ) -> BinSelection:
        """Return a selection; without one, only overlap depths are computed."""
        files = choose_replay(snapshot, replay_settings(table.spark)).estimated_files
        slots = 1
        if snapshot.partition_columns:
            slots += files // tuning.SELECTED_FILES
        if selection is not None:
            clustering = selection.clustering
        task = _SelectTask(
            snapshot=table.saved(snapshot), selection=selection, clustering=clustering, slots=slots
        )
        return cls(table=table, snapshot=snapshot, predicate=predicate, task=task)

    def bins(self, max_bytes: int | None) -> SelectedBins:
        """Return the bins, streamed to the driver, and the overlap depths."""
        found = self._frame().persist()
        depths = self._depths(found)  # computes all of them
        return SelectedBins(bins=_streamed(found, max_bytes), depths=depths)

    def depths(self) -> Mapping[str, float]:
        """Return the overlap depth of each clustering column."""
        return self._depths(self._frame())

    def _depths(self, found: DataFrame) -> Mapping[str, float]:
        rows = found.where("depths IS NOT NULL").select("depths", "count").collect()
        clustering = self.task.clustering
        total = sum(row["count"] for row in rows)
        if clustering is None or not total:
            return {}
        sums = zip(*([d * row["count"] for d in row["depths"]] for row in rows), strict=True)
        means = (round(sum(values) / total, 2) for values in sums)
        return dict(zip(clustering.names, means, strict=True))

    def _frame(self) -> DataFrame:
        """Return bins and overlap depths, in the schema of `_BINS`."""
        fields = [name for name in FILES.names if name in ADD.names]
        has_vectors = "deletionVectors" in supported_features(self.snapshot.protocol)
        if has_vectors or self.task.clustering is not None:
            fields += _STATS
        spark = self.table.spark
        files = distributed_log_replay(
            spark,
            self.snapshot,
            replay_settings(spark).num_partitions,
            where=self.predicate,
            fields=fields,
        )
        candidates = files.mapInArrow(
            named_task("select_files", self.task.candidates), spark_schema(_SLOTS)
        )
        slots = repartition_by_id(candidates, self.task.slots, "slot")
        return slots.mapInArrow(named_task("pack_bins", self.task.bins), spark_schema(_BINS))


def _streamed(found: DataFrame, max_bytes: int | None) -> Iterator[Bin]:
    """Yield bins as they are requested, those with the smallest files first if there is a limit."""
    rows = found.where("files IS NOT NULL")
    if max_bytes is not None:
        rows = rows.orderBy("average")
    try:
        bins = (
            Bin(pa.ipc.open_stream(bytes(row["files"])).read_all())
            for row in rows.select("files").toLocalIterator()
        )
        yield from bins if max_bytes is None else fitting(bins, max_bytes)
    finally:
        found.unpersist()


@dataclass(frozen=True, kw_only=True)
class _SelectTask:
    """The two steps of a selection in executors; it can be pickled."""

    snapshot: SerializedSnapshot
    selection: Selection | None
    clustering: Clustering | None
    slots: int
    """Number of tasks that pack bins."""

    def candidates(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the candidates among live files, for the task of their partition."""
        snapshot = self.snapshot.open()
        for batch in batches:
            files = _live_files(batch)
            if self.selection is not None:
                files = self.selection.candidates(snapshot, files)
            elif self.clustering is not None:
                files = self.clustering.with_bounds(snapshot, files)
            files = files.drop_columns([name for name in _STATS if name in files.column_names])
            slots = self._slots(snapshot, files)
            for slot in np.unique(slots).tolist():
                rows = serialize_table(files.filter(from_mask(slots == slot)))
                columns = [pa.array([slot], pa.int32()), pa.array([rows], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, schema=_SLOTS)

    def _slots(self, snapshot: SnapshotState, files: pa.Table) -> np.ndarray:
        """Return the task of each file: the same one for all files of a partition."""
        if self.slots == 1:
            return np.zeros(files.num_rows, np.int64)
        _, first, codes = np.unique(
            partition_codes(snapshot, files), return_index=True, return_inverse=True
        )
        values = files.column("partitionValues").combine_chunks().take(from_numpy(first))
        strings = partition_strings(snapshot, values, snapshot.partition_columns).values()
        keys = zip(*(pc.fill_null(column, "").to_pylist() for column in strings), strict=True)
        hashes = [zlib.crc32(repr(key).encode()) % self.slots for key in keys]
        return np.array(hashes, np.int64)[codes]

    def bins(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the bins and the overlap depths of some partitions."""
        snapshot = self.snapshot.open()
        tables = [
            pa.ipc.open_stream(rows).read_all()
            for batch in batches
            for rows in batch.column("files").to_pylist()
        ]
        if not tables:
            return
        files = pa.concat_tables(tables).combine_chunks()
        if self.clustering is not None:
            depths = [*self.clustering.depths(snapshot, files).values()]
            yield _row(None, None, depths, files.num_rows)
        for one in () if self.selection is None else self.selection.bins(snapshot, files):
            yield _row(serialize_table(one.files), one.average_size, None, one.files.num_rows)


def _live_files(batch: pa.RecordBatch) -> pa.Table:
    """Return live files in the schema of `FILES`, with their statistics if these were read."""
    counts = pa.nulls(batch.num_rows, pa.int64())
    if "stats" in batch.schema.names:
        counts = num_records(batch.column("stats"))
    if "stats_parsed" in batch.schema.names:
        parsed = batch.column("stats_parsed")
        if parsed.type.get_field_index("numRecords") >= 0:
            counts = pc.coalesce(counts, pc.struct_field(parsed, "numRecords").cast(pa.int64()))
    found = pa.Table.from_batches([batch])
    names = [name for name in FILES.names if name != "numRecords"]
    fixed = found.select(names).cast(FILES.remove(FILES.get_field_index("numRecords")))
    fixed = fixed.append_column(FILES.field("numRecords"), counts)
    for name in _STATS:
        if name in found.column_names:
            fixed = fixed.append_column(name, found.column(name))
    return fixed


def _row(
    files: bytes | None, average: float | None, depths: list[float] | None, count: int
) -> pa.RecordBatch:
    values = (files, average, depths, count)
    arrays = [pa.array([value], kind) for value, kind in zip(values, _BINS.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_BINS)
