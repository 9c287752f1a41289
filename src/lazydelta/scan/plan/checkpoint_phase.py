"""The checkpoint phase of a scan: leaves -> row groups -> batches -> live, matching adds.

Each level prunes before the next one costs I/O: a sidecar by the zone maps in its tags, a row group
by its footer, a batch by the predicate's columns (decoded first where that pays), a row by the keys
of files seen in the tail.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask, to_mask
from lazydelta._parallel import BackgroundIterator, ordered_map
from lazydelta.replay.skipping import read_zone_maps
from lazydelta.scan.plan import tuning
from lazydelta.scan.plan.add_columns import add_leaf_columns, project_adds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.log.checkpoints import Checkpoint, Leaf, LeafReader
    from lazydelta.replay import Reconciler
    from lazydelta.replay.skipping import Pruner
    from lazydelta.scan.plan.scan_metrics import ScanMetrics

__all__ = ["CheckpointScan", "leaves_to_read"]


def leaves_to_read(checkpoint: Checkpoint, pruner: Pruner, metrics: ScanMetrics) -> list[Leaf]:
    """Return the leaves that may hold a matching add, and count the others as pruned."""
    leaves = checkpoint.leaves()
    zones = [read_zone_maps(leaf.zones) for leaf in leaves]
    kept = pruner.keep_zone_maps(zones)
    for zone, is_kept in zip(zones, kept, strict=True):
        if zone is not None and not is_kept:
            metrics.sidecars_skipped += 1
            metrics.files_pruned += zone.adds
    return [leaf for leaf, is_kept in zip(leaves, kept, strict=True) if is_kept]


@dataclass(slots=True)
class _Window:
    """Row groups of a leaf that are read together."""

    reader: LeafReader
    row_groups: Sequence[int]
    columns: Sequence[str]
    is_last: bool
    """Whether it is the last one of its leaf."""


class CheckpointScan:
    """Streams the live adds of a checkpoint that may match.

    Args:
        checkpoint: The checkpoint.
        schema: The schema of the batches.
        fields: The fields of the adds to read.
        pruner: Prunes sidecars, row groups and adds.
        reconciler: Knows the files of the tail.
        metrics: Receives the counts.
        select_row_groups: Which of the matching row groups of a leaf to read; by default all.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        schema: pa.Schema,
        fields: Sequence[str],
        pruner: Pruner,
        reconciler: Reconciler,
        metrics: ScanMetrics,
        select_row_groups: Callable[[Sequence[int]], Sequence[int]] | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self._schema = schema
        self._fields = fields
        self._pruner = pruner
        self._reconciler = reconciler
        self._metrics = metrics
        self._select_row_groups = select_row_groups
        self._last_group_matched = False
        self._decoding: BackgroundIterator[pa.RecordBatch] | None = None

    def start(self, *, rows: int, row_groups_at_once: int) -> None:
        """Start decoding in the background; the caller must call `close`.

        Decoding is most of the work and releases the GIL, so it has its own thread. It does not
        depend on the files seen in the tail, so it may start while the tail is being read.
        """
        decode = partial(self._decode, rows, row_groups_at_once)
        self._decoding = BackgroundIterator(decode, depth=tuning.DECODED_BATCHES_AHEAD)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the live adds; batches may be empty."""
        for adds in self._decoding or ():
            yield self._live(adds)

    def close(self) -> None:
        """Stop decoding and close the files."""
        if self._decoding is not None:
            self._decoding.close()

    def _decode(self, rows: int, row_groups_at_once: int) -> Iterator[pa.RecordBatch]:
        leaves = leaves_to_read(self.checkpoint, self._pruner, self._metrics)
        windows = self._windows(leaves, row_groups_at_once)
        # A remote window is fetched while the one before it is decoded.
        ahead = 1 + tuning.WINDOWS_AHEAD if self.checkpoint.is_remote else 1
        with closing(ordered_map(self._fetch, windows, width=ahead)) as fetched:
            for window in fetched:
                try:
                    yield from self._decode_window(window, rows)
                    window.reader.release(window.row_groups)
                finally:
                    if window.is_last:
                        window.reader.close()

    def _windows(self, leaves: Sequence[Leaf], row_groups_at_once: int) -> Iterator[_Window]:
        """Yield the row groups to read, those that are read together in one window.

        The first windows of a remote checkpoint are small: the first files do not wait for more.
        """
        max_bytes = tuning.FIRST_WINDOW_BYTES
        for reader in self.checkpoint.readers(leaves):
            self._metrics.checkpoint_leaves += 1
            groups = list(self._row_groups(reader))
            if not groups:
                reader.close()
            while groups:
                columns = add_leaf_columns(self._fields, list(reader.columns))
                count = min(row_groups_at_once, len(groups))
                while count > 1 and self.checkpoint.is_remote:
                    if reader.column_bytes(columns, groups[:count]) <= max_bytes:
                        break
                    count //= 2
                window, groups = groups[:count], groups[count:]
                yield _Window(reader, window, columns, is_last=not groups)
                max_bytes = tuning.WINDOW_BYTES

    def _row_groups(self, reader: LeafReader) -> Sequence[int]:
        if not reader.has_adds():
            return ()
        groups = self._pruner.keep_row_groups(reader.metadata)
        self._count_row_groups(reader, groups)
        return groups if self._select_row_groups is None else self._select_row_groups(groups)

    def _fetch(self, window: _Window) -> _Window:
        """Request the columns that a window needs first."""
        reader, groups = window.reader, window.row_groups
        window.columns = reader.without_empty(window.columns, groups)
        predicate_columns = self._pruner.checkpoint_leaves(reader.columns)
        reader.fetch(predicate_columns or window.columns, groups)
        return window

    def _decode_window(self, window: _Window, rows: int) -> Iterator[pa.RecordBatch]:
        reader, groups, columns = window.reader, window.row_groups, window.columns
        predicate_columns = self._pruner.checkpoint_leaves(reader.columns)
        self._metrics.row_groups_read += len(groups)
        if not predicate_columns:
            yield from self._decode_and_prune(reader, columns, groups, rows)
            return
        # Of a remote window, each phase takes one request.
        step = len(groups) if self.checkpoint.is_remote else 1
        for start in range(0, len(groups), step):
            some = groups[start : start + step]
            # Decoding the predicate's columns first pays if nothing matches. Matching files are
            # clustered, so the previous row group predicts the next one.
            if self._last_group_matched and set(predicate_columns) <= set(columns):
                yield from self._decode_and_prune(reader, columns, some, rows)
            else:
                yield from self._predicate_first(reader, predicate_columns, columns, some, rows)

    def _decode_and_prune(
        self, reader: LeafReader, columns: Sequence[str], groups: Sequence[int], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode all columns, then prune each batch."""
        self._metrics.checkpoint_bytes += reader.column_bytes(columns, groups)
        self._last_group_matched = False
        for adds in reader.adds(columns, groups, rows=rows):
            mask = self._matching(adds)
            self._last_group_matched |= mask is None or bool(mask.any())
            yield adds if mask is None or mask.all() else adds.filter(from_mask(mask))

    def _predicate_first(
        self,
        reader: LeafReader,
        predicate_columns: Sequence[str],
        columns: Sequence[str],
        groups: Sequence[int],
        rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the predicate's columns of row groups, then the others where an add matches."""
        self._metrics.checkpoint_bytes += reader.column_bytes(predicate_columns, groups)
        matched: dict[int, list[np.ndarray | None]] = {}
        for group in groups:
            batches = reader.adds(predicate_columns, [group], rows=rows)
            masks = [self._matching(adds) for adds in batches]
            if any(mask is None or mask.any() for mask in masks):
                matched[group] = masks
        self._last_group_matched = bool(matched)
        reader.fetch(columns, list(matched))
        self._metrics.checkpoint_bytes += reader.column_bytes(columns, list(matched))
        for group, keep in matched.items():
            yield from reader.adds(columns, [group], rows=rows, keep=keep)

    def _matching(self, adds: pa.RecordBatch) -> np.ndarray | None:
        mask = self._pruner.mask(adds)
        if mask is None:
            return None
        kept = to_mask(mask)
        self._metrics.files_pruned += len(kept) - int(np.count_nonzero(kept))
        return kept

    def _live(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        batch = project_adds(adds, self._schema)
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
    """Filter a batch; all-null columns, such as most deletion vectors, are only sliced."""
    keep, count = from_mask(mask), int(np.count_nonzero(mask))
    arrays = [
        column.slice(0, count) if column.null_count == len(column) else column.filter(keep)
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
