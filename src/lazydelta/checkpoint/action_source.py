"""The actions of a checkpoint in the order in which they are written, a row group at a time.

Between a `FullReplay`, which has them in the order of the log, and the files. Everything that went
in is counted, and `verify` holds the counts against each other before anything is published.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask
from lazydelta._parallel import prefetch
from lazydelta.checkpoint.checkpoint_schema import CheckpointSettings, CheckpointShape
from lazydelta.checkpoint.external_sort import SortedAdds, regrouped
from lazydelta.checkpoint.sort_bounds import lower_bounds
from lazydelta.errors import InternalError, LogCorruptError
from lazydelta.log import checksum_path
from lazydelta.protocol import clustering_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.checkpoint.sort_bounds import LowerBound
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "ROW_GROUP_ROWS",
    "CheckpointSource",
    "check_against_checksum",
    "tombstone_columns",
]

ROW_GROUP_ROWS = 32_768
"""Small enough that a partition of a large table is in a few, large enough that footers stay small.
"""
_AHEAD = 1


class CheckpointSource:
    """What a checkpoint of a replayed version holds; `adds` once, then `removes` once."""

    def __init__(self, replay: FullReplay) -> None:
        snapshot = replay.snapshot
        self.replay = replay
        clustered_by = clustering_columns(replay.domains)
        settings = CheckpointSettings.of(snapshot)
        self.shape = CheckpointShape(snapshot, settings, clustered_by=clustered_by)
        self.others: list[dict[str, Any]] = [
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
        """Yield the live files in the order of the layout."""
        # Half a row group is sorted at a time, which takes half the memory and no longer.
        rows = (ROW_GROUP_ROWS + 1) // 2
        with SortedAdds(self.shape) as ordered:

            def row_groups() -> Iterator[list[Columns]]:
                return regrouped(ordered.in_order(self._arrivals(), rows), ROW_GROUP_ROWS)

            with closing(prefetch(row_groups, depth=_AHEAD)) as ahead:
                yield from ahead

    def _arrivals(self) -> Iterator[tuple[Columns, np.ndarray | None, LowerBound | None]]:
        bounds = lower_bounds(self.replay.footers(), self.shape)
        for batch, live, place in self.replay.adds_and_which():
            yield self.shape.shaped(batch), live, None if place is None else bounds[place]

    def removes(self) -> Iterator[list[Columns]]:
        """Yield the tombstones."""
        waiting: list[pa.RecordBatch] = []
        for batch in self.replay.removes():
            waiting += [batch] if batch.num_rows else []
            if sum(part.num_rows for part in waiting) >= ROW_GROUP_ROWS:
                yield [self._joined(waiting)]
                waiting = []
        if waiting:
            yield [self._joined(waiting)]

    def verify(self, adds: int) -> None:
        """Refuse to publish a checkpoint of so many adds, unless everything says it is right.

        Raises:
            InternalError: It is not what was replayed.
            LogCorruptError: The version's `.crc` counts other files.
        """
        self.replay.require_complete()
        totals, snapshot = self.replay.totals, self.replay.snapshot
        if adds != totals.files:
            raise InternalError(f"{adds} adds were written of {totals.files} that were replayed")
        check_against_checksum(snapshot, totals.files, totals.bytes)

    def _joined(self, batches: list[pa.RecordBatch]) -> Columns:
        return tombstone_columns(pa.Table.from_batches(batches), self.shape)


def check_against_checksum(snapshot: SnapshotState, files: int, data_bytes: int) -> None:
    """Refuse the checkpoint of a version whose `.crc` counts other files.

    Raises:
        LogCorruptError: It does.
    """
    known = snapshot.checksum
    if known is None or known.version != snapshot.version:
        return
    if (known.num_files, known.table_size_bytes) != (files, data_bytes):
        reason = (
            f"it counts {known.num_files} files of {known.table_size_bytes} bytes, the log "
            f"has {files} of {data_bytes}; no checkpoint was written"
        )
        place = checksum_path(snapshot.version)
        raise LogCorruptError(snapshot.store.root, place, reason, snapshot.version)


def tombstone_columns(removes: pa.Table, shape: CheckpointShape) -> Columns:
    """Return the fields of tombstones in the shape of a checkpoint, by name."""
    table = removes.combine_chunks()
    columns = {
        item.name: table.column(item.name).chunk(0)
        for item in shape.remove
        if table.column(item.name).null_count < table.num_rows
    }
    columns["dataChange"] = from_mask(np.zeros(table.num_rows, np.bool_))
    return columns
