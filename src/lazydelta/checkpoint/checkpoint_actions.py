"""The actions of a checkpoint in the order in which they are written, one row group at a time.

They come from a `FullReplay`. `validate` compares their number with the replay and the version's
checksum before anything is published.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask
from lazydelta._parallel import prefetch
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.checkpoint_schema import CheckpointSchema, CheckpointSettings
from lazydelta.checkpoint.sort.external_sort import AddSorter
from lazydelta.checkpoint.sort.row_group_bounds import lower_bounds
from lazydelta.checkpoint.sort.sorted_runs import rechunk
from lazydelta.errors import InternalError, LogCorruptError
from lazydelta.log import checksum_path
from lazydelta.protocol import clustering_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.checkpoint.sort.row_group_bounds import LowerBound
    from lazydelta.checkpoint.sort.sorted_runs import Columns
    from lazydelta.snapshot import SnapshotState

__all__ = ["CheckpointActions"]


class CheckpointActions:
    """The actions of a replayed version; read `adds` once, then `removes` once."""

    def __init__(self, replay: FullReplay) -> None:
        snapshot = replay.snapshot
        self.replay = replay
        clustered_by = clustering_columns(replay.domains)
        settings = CheckpointSettings.of(snapshot)
        self.schema = CheckpointSchema(snapshot, settings, clustered_by=clustered_by)
        self.non_file_actions: list[dict[str, Any]] = [
            {"protocol": snapshot.protocol.to_json()},
            {"metaData": snapshot.metadata.to_json()},
            *({"txn": action.to_json()} for action in replay.transactions.values()),
            *({"domainMetadata": action.to_json()} for action in replay.domains.values()),
        ]

    @property
    def snapshot(self) -> SnapshotState:
        """The version."""
        return self.replay.snapshot

    def adds(self) -> Iterator[list[Columns]]:
        """Yield the live files in sort order, a row group at a time."""
        # Half a row group is sorted at a time: half the memory, in the same time.
        rows = (tuning.ROW_GROUP_ROWS + 1) // 2
        with AddSorter(self.schema) as sorter:

            def row_groups() -> Iterator[list[Columns]]:
                return rechunk(sorter.sort(self._unsorted_adds(), rows), tuning.ROW_GROUP_ROWS)

            with closing(prefetch(row_groups, depth=tuning.ROW_GROUPS_AHEAD)) as ahead:
                yield from ahead

    def _unsorted_adds(self) -> Iterator[tuple[Columns, np.ndarray | None, LowerBound | None]]:
        bounds = lower_bounds(self.replay.footers(), self.schema)
        for batch, live, row_group in self.replay.adds_with_mask():
            bound = None if row_group is None else bounds[row_group]
            yield self.schema.convert_adds(batch), live, bound

    def removes(self) -> Iterator[list[Columns]]:
        """Yield the tombstones, a row group at a time."""
        waiting: list[pa.RecordBatch] = []
        for batch in self.replay.removes():
            waiting += [batch] if batch.num_rows else []
            if sum(part.num_rows for part in waiting) >= tuning.ROW_GROUP_ROWS:
                yield [self._convert_removes(waiting)]
                waiting = []
        if waiting:
            yield [self._convert_removes(waiting)]

    def _convert_removes(self, batches: list[pa.RecordBatch]) -> Columns:
        table = pa.Table.from_batches(batches).combine_chunks()
        columns = {
            item.name: table.column(item.name).chunk(0)
            for item in self.schema.remove
            if table.column(item.name).null_count < table.num_rows
        }
        columns["dataChange"] = from_mask(np.zeros(table.num_rows, np.bool_))
        return columns

    def validate(self, adds: int) -> None:
        """Refuse to publish a checkpoint with a wrong number of adds.

        Args:
            adds: How many were written.

        Raises:
            InternalError: The replay has another number.
            LogCorruptError: The version's checksum has another number of files or bytes.
        """
        self.replay.require_complete()
        files, data_bytes = self.replay.totals.files, self.replay.totals.bytes
        if adds != files:
            raise InternalError(f"{adds} adds were written of {files} that were replayed")
        snapshot = self.snapshot
        checksum = snapshot.checksum
        if checksum is None or checksum.version != snapshot.version:
            return
        if (checksum.num_files, checksum.table_size_bytes) != (files, data_bytes):
            reason = (
                f"it counts {checksum.num_files} files of {checksum.table_size_bytes} bytes, the "
                f"log has {files} of {data_bytes}; no checkpoint was written"
            )
            path = checksum_path(snapshot.version)
            raise LogCorruptError(snapshot.store.root, path, reason, snapshot.version)
