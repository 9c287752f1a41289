"""The checkpoint phase of a scan: leaves -> row groups -> batches -> live, matching adds.

Each level throws away what it can before the next one costs anything: a sidecar by its tag, a row
group by its footer, a batch by the predicate's own columns (read alone when they are few), a row
by the seen keys.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask, to_mask
from lazydelta._parallel import BackgroundIterator
from lazydelta.replay.skipping import read_zone_maps
from lazydelta.scan.plan.add_columns import leaves_of, projected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.log.checkpoints import Checkpoint, Leaf, LeafReader
    from lazydelta.replay import Reconciler
    from lazydelta.replay.skipping import Pruner
    from lazydelta.scan.plan.scan_metrics import ScanMetrics

__all__ = ["CheckpointScan", "leaves_to_read"]

_DECODED_AHEAD = 4


def leaves_to_read(checkpoint: Checkpoint, pruner: Pruner, metrics: ScanMetrics) -> list[Leaf]:
    """Return the leaves that may hold the add of a matching file, and count the others."""
    leaves = checkpoint.leaves()
    zones = [read_zone_maps(leaf.zones) for leaf in leaves]
    kept = pruner.keep_zone_maps(zones)
    for zone, is_kept in zip(zones, kept, strict=True):
        if zone is not None and not is_kept:
            metrics.sidecars_skipped += 1
            metrics.files_pruned += zone.adds
    return [leaf for leaf, is_kept in zip(leaves, kept, strict=True) if is_kept]


class CheckpointScan:
    """Streams the live adds of one checkpoint that may match."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        schema: pa.Schema,
        fields: Sequence[str],
        pruner: Pruner,
        reconciler: Reconciler,
        metrics: ScanMetrics,
        share: Callable[[Sequence[int]], Sequence[int]] | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self._schema = schema
        self._fields = fields
        self._pruner = pruner
        self._reconciler = reconciler
        self._metrics = metrics
        self._share = share  # of the row groups to read, where others read the rest
        self._last_group_matched = False
        self._ahead: BackgroundIterator[pa.RecordBatch] | None = None

    def start(self, *, rows: int, row_groups_at_once: int) -> None:
        """Begin to decode; `close` must follow.

        Decoding is most of the work and needs no Python, so it gets a thread of its own. It does
        not depend on what was seen, so it may begin while the tail is still being read.
        """
        decode = partial(self._decoded, rows, row_groups_at_once)
        self._ahead = BackgroundIterator(decode, depth=_DECODED_AHEAD)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the live adds of what was decoded, some batches of them perhaps empty."""
        for adds in self._ahead or ():
            yield self._live(adds)

    def close(self) -> None:
        """Stop decoding, and close the files."""
        if self._ahead is not None:
            self._ahead.close()

    def _decoded(self, rows: int, row_groups_at_once: int) -> Iterator[pa.RecordBatch]:
        leaves = leaves_to_read(self.checkpoint, self._pruner, self._metrics)
        for reader in self.checkpoint.readers(leaves):
            with closing(reader):
                self._metrics.checkpoint_leaves += 1
                if not reader.has_adds():
                    continue
                groups = self._pruner.keep_row_groups(reader.metadata)
                self._count_row_groups(reader, groups)
                if self._share is not None:
                    groups = list(self._share(groups))
                for start in range(0, len(groups), row_groups_at_once):
                    chosen = groups[start : start + row_groups_at_once]
                    yield from self._row_groups(reader, chosen, rows)

    def _row_groups(
        self, reader: LeafReader, groups: Sequence[int], rows: int
    ) -> Iterator[pa.RecordBatch]:
        columns = reader.without_empty(leaves_of(self._fields, list(reader.columns)), groups)
        wanted = self._pruner.checkpoint_leaves(reader.columns)
        self._metrics.row_groups_read += len(groups)
        if not wanted:
            yield from self._together(reader, columns, groups, rows)
            return
        for group in groups:
            # Decoding the predicate's columns alone pays where nothing matches, and files that
            # match lie together: so the last row group foretells the next one.
            if self._last_group_matched and set(wanted) <= set(columns):
                yield from self._together(reader, columns, [group], rows)
            else:
                yield from self._predicate_first(reader, wanted, columns, group, rows)

    def _together(
        self, reader: LeafReader, columns: Sequence[str], groups: Sequence[int], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode all columns and prune each batch."""
        self._metrics.checkpoint_bytes += reader.column_bytes(columns, groups)
        self._last_group_matched = False
        for adds in reader.adds(columns, groups, rows=rows):
            mask = self._matching(adds)
            self._last_group_matched |= mask is None or bool(mask.any())
            yield adds if mask is None or mask.all() else adds.filter(from_mask(mask))

    def _predicate_first(
        self,
        reader: LeafReader,
        wanted: Sequence[str],
        columns: Sequence[str],
        group: int,
        rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the predicate's columns of a row group, and the rest only if a file matches."""
        self._metrics.checkpoint_bytes += reader.column_bytes(wanted, [group])
        masks = [self._matching(adds) for adds in reader.adds(wanted, [group], rows=rows)]
        self._last_group_matched = any(mask is None or mask.any() for mask in masks)
        if self._last_group_matched:
            self._metrics.checkpoint_bytes += reader.column_bytes(columns, [group])
            yield from reader.adds(columns, [group], rows=rows, keep=masks)

    def _matching(self, adds: pa.RecordBatch) -> np.ndarray | None:
        mask = self._pruner.mask(adds)
        if mask is None:
            return None
        kept = to_mask(mask)
        self._metrics.files_pruned += len(kept) - int(np.count_nonzero(kept))
        return kept

    def _live(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        batch = projected(adds, self._schema)
        live = self._reconciler.is_live(batch.column("path"), batch.column("deletionVector"))
        if live is None or live.all():
            return batch
        self._metrics.files_superseded += len(live) - int(np.count_nonzero(live))
        return _filtered(batch, live)

    def _count_row_groups(self, reader: LeafReader, kept: Sequence[int]) -> None:
        total = reader.metadata.num_row_groups
        self._metrics.row_groups += total
        if len(kept) < total:
            path = reader.columns["add.path"]
            for group in set(range(total)) - set(kept):
                row_group = reader.metadata.row_group(group)
                nulls = row_group.column(path).statistics.null_count
                self._metrics.files_pruned += row_group.num_rows - nulls


def _filtered(batch: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    """Filter a batch; columns without any value, as vectors mostly are, need no filtering."""
    keep, count = from_mask(mask), int(np.count_nonzero(mask))
    arrays = [
        column.slice(0, count) if column.null_count == len(column) else column.filter(keep)
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
