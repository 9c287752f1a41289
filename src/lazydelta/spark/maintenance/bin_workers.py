"""Executors as the workers of OPTIMIZE: they select files, and rewrite bins in tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta.errors import InternalError
from lazydelta.operations.optimize import Bin, LocalWorkers
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import arrow_schema, serialize_table
from lazydelta.spark.conf import replay_settings
from lazydelta.spark.maintenance.cluster_shuffle import ClusterShuffle
from lazydelta.spark.maintenance.select_bins import BinSelection
from lazydelta.spark.planner import choose_replay, map_splits
from lazydelta.spark.spark_releases import collect_arrow
from lazydelta.spark.write_tasks import RESULT, collect_tables, task_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.operations import UncommittedFiles
    from lazydelta.operations.optimize import Clustering, Rewriter, SelectedBins, Selection
    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.maintenance.open_table import OpenTable
    from lazydelta.spark.serialized_snapshot import SerializedSnapshot

__all__ = ["ExecutorWorkers"]

_NUMBER = pa.field("number", pa.int64())
_RESULTS = pa.schema([_NUMBER, *arrow_schema(RESULT)])


class ExecutorWorkers:
    """Selects and rewrites files on executors.

    Args:
        table: The table.
    """

    bins_at_once: int | None = 1
    """A task rewrites one bin."""
    batch_bytes: int | None = tuning.REWRITTEN_TOGETHER

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._local = LocalWorkers()

    def select(
        self,
        snapshot: SnapshotState,
        predicate: Predicate | None,
        selection: Selection,
        max_bytes: int | None,
    ) -> SelectedBins:
        """Return the bins to rewrite; executors find them if they replay the log."""
        if not self._is_replayed(snapshot):
            return self._local.select(snapshot, predicate, selection, max_bytes)
        found = BinSelection.of(self._table, snapshot, predicate, selection)
        return found.bins(max_bytes)

    def depths(
        self, snapshot: SnapshotState, predicate: Predicate | None, clustering: Clustering
    ) -> Mapping[str, float]:
        """Return the overlap depth of each clustering column."""
        if not self._is_replayed(snapshot):
            return self._local.depths(snapshot, predicate, clustering)
        return BinSelection.of(self._table, snapshot, predicate, None, clustering).depths()

    def rewrite(
        self,
        rewriter: Rewriter,
        snapshot: SnapshotState,
        bins: Sequence[Bin],
        files: UncommittedFiles,
    ) -> Iterator[pa.Table]:
        """Rewrite bins in tasks; yield the add actions of each, in their order."""
        saved = self._table.saved(snapshot)
        clusters = rewriter.clustering is not None
        large = [clusters and one.size > tuning.CLUSTERED_IN_ONE_TASK for one in bins]
        whole = _BinTask(snapshot=saved, rewriter=rewriter)
        parts = [
            (number, serialize_table(one.files))
            for number, (one, is_large) in enumerate(zip(bins, large, strict=True))
            if not is_large
        ]
        done = self._run(whole, parts)
        for adds in done.values():
            files.add(adds)
        shuffle = ClusterShuffle(spark=self._table.spark, snapshot=saved, rewriter=rewriter)
        for number, one in enumerate(bins):
            adds = done.get(number)
            if adds is None:
                adds = shuffle.cluster(one, files)
            if adds is None:
                adds = files.add(self._run(whole, [(number, serialize_table(one.files))])[number])
            yield adds

    def _run(self, task: _BinTask, parts: Sequence[tuple[int, bytes]]) -> dict[int, pa.Table]:
        """Rewrite bins in a task each, and return the add actions by the number of the bin.

        Raises:
            InternalError: Not one result for each bin.
        """
        if not parts:
            return {}
        found = collect_arrow(map_splits(self._table.spark, parts, task.rewrite_bin, _RESULTS))
        tables, _ = collect_tables(found)
        done = dict(zip(found.column(_NUMBER.name).to_pylist(), tables, strict=True))
        if done.keys() != {number for number, _ in parts} or len(tables) != len(parts):
            raise InternalError(f"{len(tables)} results of {len(parts)} bins")
        return done

    def _is_replayed(self, snapshot: SnapshotState) -> bool:
        return choose_replay(snapshot, replay_settings(self._table.spark)).distributed


@dataclass(frozen=True, kw_only=True)
class _BinTask:
    """The rewrite of one bin; it can be pickled."""

    snapshot: SerializedSnapshot
    rewriter: Rewriter

    def rewrite_bin(self, part: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
        """Rewrite the files of a bin with the code of one process."""
        number, files = part
        one = Bin(pa.ipc.open_stream(files).read_all())

        def work() -> tuple[pa.Table, int]:
            return self.rewriter.rewrite(self.snapshot.open(), one), one.files.num_rows

        numbers = from_numpy(np.array([number], np.int64))
        for result in task_result(work):
            yield pa.RecordBatch.from_arrays([numbers, *result.columns], schema=_RESULTS)
