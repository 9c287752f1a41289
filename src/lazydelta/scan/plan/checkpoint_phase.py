"""The checkpoint phase of a scan: leaves -> row groups -> batches -> live, matching adds.

Each level prunes before the next one costs I/O: a sidecar by the zone maps in its tags, a row group
by its footer, a batch by the predicate's columns (decoded first where that pays), a row by the keys
of files seen in the tail.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask, to_mask
from lazydelta._parallel import BackgroundIterator, ordered_map
from lazydelta.replay.skipping import read_zone_maps
from lazydelta.scan.plan import tuning
from lazydelta.scan.plan.add_columns import add_leaf_columns, project_adds

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from lazydelta.log.checkpoints import Checkpoint, Leaf, LeafReader
    from lazydelta.replay import Reconciler
    from lazydelta.replay.skipping import Pruner
    from lazydelta.scan.plan.log_positions import Piece, Share, Unit
    from lazydelta.scan.plan.scan_metrics import ScanMetrics

__all__ = ["CheckpointScan", "leaves_to_read"]


def leaves_to_read(leaves: Sequence[Leaf], pruner: Pruner, metrics: ScanMetrics) -> list[int]:
    """Return the numbers of the leaves that may hold a match, and count the others as pruned."""
    zones = [read_zone_maps(leaf.zones) for leaf in leaves]
    kept = pruner.keep_zone_maps(zones)
    for zone, is_kept in zip(zones, kept, strict=True):
        if zone is not None and not is_kept:
            metrics.sidecars_skipped += 1
            metrics.files_pruned += zone.adds
    return [number for number, is_kept in enumerate(kept) if is_kept]


@dataclass(slots=True)
class _Window:
    """Row groups of a leaf that are read together."""

    reader: LeafReader
    leaf: int
    """Number of the leaf in its checkpoint."""
    row_groups: Sequence[int]
    columns: Sequence[str]
    is_last: bool
    """Whether it is the last one of its leaf."""
    adds: range | None = None
    """The adds to read, if it is a part of one row group."""

    def unit(self, run: Sequence[int]) -> Unit:
        """Return the unit of adds that are decoded together."""
        return ("leaf", self.leaf, run[0])

    def num_rows(self) -> int:
        """Return the number of rows to decode."""
        return sum(self.reader.metadata.row_group(group).num_rows for group in self.row_groups)

    def clipped(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the adds to read."""
        if self.adds is None:
            yield from batches
            return
        end = 0
        for batch in batches:
            start, end = end, end + batch.num_rows
            first, last = max(start, self.adds.start), min(end, self.adds.stop)
            if first < last:
                yield batch.slice(first - start, last - first)

    def runs(self) -> Iterator[Sequence[int]]:
        """Yield row groups that are decoded in one call: several small ones, or a large one."""
        run: list[int] = []
        num_rows = 0
        for group in self.row_groups:
            run.append(group)
            num_rows += self.reader.metadata.row_group(group).num_rows
            if num_rows >= tuning.RUN_ROWS:
                yield run
                run, num_rows = [], 0
        if run:
            yield run


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
        first: Number of the leaf, and the row group in it, to start at; by default the first.
        share: The share of the checkpoint to read; by default all.
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
        first: tuple[int, int] | None = None,
        share: Share | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self._schema = schema
        self._fields = fields
        self._pruner = pruner
        self._reconciler = reconciler
        self._metrics = metrics
        self._select_row_groups = select_row_groups
        self.first = first
        self._share = share
        self._sections: list[tuple[int, int, int]] = []
        self._last_group_matched = False
        self._decoding: BackgroundIterator[Piece] | Generator[Piece] | None = None

    def start(self, *, rows: int, row_groups_at_once: int, ahead: bool = True) -> None:
        """Start decoding in the background; the caller must call `close`.

        Decoding is most of the work and releases the GIL, so it has its own thread. It does not
        depend on the files seen in the tail, so it may start while the tail is being read.

        Args:
            rows: Rows that are decoded at once.
            row_groups_at_once: Row groups that are read at once.
            ahead: Whether to decode ahead of the consumer. Otherwise the consumer's thread decodes
                whole row groups, so that no decoder is held between two of them.
        """
        if ahead:
            decode = partial(self._decode, rows, row_groups_at_once)
            self._decoding = BackgroundIterator(decode, depth=tuning.DECODED_BATCHES_AHEAD)
        else:
            self._decoding = self._decode(rows, row_groups_at_once, tuning.WHOLE_ROWS)

    def batches(self) -> Iterator[Piece]:
        """Yield the live adds with the leaf and row group they start in; batches may be empty."""
        return map(self._live_piece, self._decoding or ())  # a loop would hold the last one

    def close(self) -> None:
        """Stop decoding and close the files."""
        if self._decoding is not None:
            self._decoding.close()

    def _decode(self, rows: int, row_groups_at_once: int, whole_rows: int = 0) -> Generator[Piece]:
        """Yield decoded adds; windows of at most `whole_rows` rows are decoded at once."""
        windows = self._windows(row_groups_at_once)
        # A remote window is fetched while the one before it is decoded.
        ahead = 1 + tuning.WINDOWS_AHEAD if self.checkpoint.is_remote else 1
        with closing(ordered_map(self._fetch, windows, width=ahead)) as fetched:
            for window in fetched:
                try:
                    count = window.num_rows()
                    if not 0 < count <= whole_rows:
                        yield from self._decode_window(window, rows)
                        window.reader.release(window.row_groups)
                    else:
                        decoded = deque(self._decode_window(window, count))
                        window.reader.release(window.row_groups)
                        while decoded:
                            yield decoded.popleft()
                finally:
                    if window.is_last:
                        window.reader.close()

    def _windows(self, row_groups_at_once: int) -> Iterator[_Window]:
        """Yield the row groups to read, those that are read together in one window.

        The first windows of a remote checkpoint are small: the first files do not wait for more.
        """
        max_bytes = tuning.FIRST_WINDOW_BYTES
        for number, reader in self._readers():
            self._metrics.checkpoint_leaves += 1
            parts = self._row_groups(reader, number)
            groups = list(parts)
            if not groups:
                reader.close()
            while groups:
                columns = add_leaf_columns(self._fields, list(reader.columns))
                count = min(row_groups_at_once, len(groups))
                if any(parts[group] is not None for group in groups[:count]):
                    count = 1
                while count > 1 and self.checkpoint.is_remote:
                    if reader.column_bytes(columns, groups[:count]) <= max_bytes:
                        break
                    count //= 2
                window, groups = groups[:count], groups[count:]
                yield _Window(reader, number, window, columns, not groups, parts[window[0]])
                max_bytes = tuning.WINDOW_BYTES

    def _readers(self) -> Iterator[tuple[int, LeafReader]]:
        """Open the leaves to read, and yield them with their numbers."""
        leaves = self.checkpoint.leaves()
        numbers = leaves_to_read(leaves, self._pruner, self._metrics)
        if self.first is not None:
            first_leaf = self.first[0]
            numbers = [number for number in numbers if number >= first_leaf]
        if self._share is not None:
            self._sections = _sections(leaves)
            numbers = [n for n in numbers if self._share.overlaps(*self._sections[n])]
        readers = self.checkpoint.readers([leaves[number] for number in numbers])
        yield from zip(numbers, readers, strict=True)

    def _row_groups(self, reader: LeafReader, leaf: int) -> dict[int, range | None]:
        """Return the row groups to read; of one that a share has a part of, the range of adds."""
        if not reader.has_adds():
            return {}
        groups: Sequence[int] = self._pruner.keep_row_groups(reader.metadata)
        self._count_row_groups(reader, groups)
        if self._select_row_groups is not None:
            groups = self._select_row_groups(groups)
        if self.first is not None and leaf == self.first[0]:
            first_group = self.first[1]
            groups = [group for group in groups if group >= first_group]
        if self._share is None:
            return dict.fromkeys(groups)
        rows = self._share.rows(*self._sections[leaf], reader.metadata.num_rows)
        return _parts(reader, groups, rows)

    def _fetch(self, window: _Window) -> _Window:
        """Request the columns that a window needs first."""
        reader, groups = window.reader, window.row_groups
        window.columns = reader.without_empty(window.columns, groups)
        predicate_columns = self._pruner.checkpoint_leaves(reader.columns)
        reader.fetch(predicate_columns or window.columns, groups)
        return window

    def _decode_window(self, window: _Window, rows: int) -> Iterator[Piece]:
        reader, groups, columns = window.reader, window.row_groups, window.columns
        predicate_columns = self._pruner.checkpoint_leaves(reader.columns)
        self._metrics.row_groups_read += len(groups)
        if not predicate_columns:
            for run in window.runs():
                for adds in self._decode_and_prune(window, columns, run, rows):
                    yield window.unit(run), adds
            return
        # Of a remote window, each phase takes one request.
        step = len(groups) if self.checkpoint.is_remote else 1
        for start in range(0, len(groups), step):
            some = groups[start : start + step]
            # Decoding the predicate's columns first pays if nothing matches. Matching files are
            # clustered, so the previous row group predicts the next one.
            if window.adds is not None:
                needed = list(dict.fromkeys((*columns, *predicate_columns)))
                decoded = self._decode_and_prune(window, needed, some, rows)
            elif self._last_group_matched and set(predicate_columns) <= set(columns):
                decoded = self._decode_and_prune(window, columns, some, rows)
            else:
                decoded = self._predicate_first(window, predicate_columns, some, rows)
            for adds in decoded:
                yield window.unit(some), adds

    def _decode_and_prune(
        self, window: _Window, columns: Sequence[str], groups: Sequence[int], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode all columns, then prune each batch."""
        reader = window.reader
        self._metrics.checkpoint_bytes += reader.column_bytes(columns, groups)
        self._last_group_matched = False
        for adds in window.clipped(reader.adds(columns, groups, rows=rows)):
            mask = self._matching(adds)
            self._last_group_matched |= mask is None or bool(mask.any())
            yield adds if mask is None or mask.all() else adds.filter(from_mask(mask))

    def _predicate_first(
        self,
        window: _Window,
        predicate_columns: Sequence[str],
        groups: Sequence[int],
        rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the predicate's columns of row groups, then the others where an add matches."""
        reader, columns = window.reader, window.columns
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

    def _live_piece(self, piece: Piece) -> Piece:
        return piece[0], self._live(piece[1])

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


def _sections(leaves: Sequence[Leaf]) -> list[tuple[int, int, int]]:
    """Return the place of each leaf on a line: its start, its size and the length of the line."""
    sizes = [leaf.size or 1 for leaf in leaves]
    ends = list(accumulate(sizes))
    return [(end - size, size, ends[-1]) for size, end in zip(sizes, ends, strict=True)]


def _parts(reader: LeafReader, row_groups: Sequence[int], rows: range) -> dict[int, range | None]:
    """Return the row groups with some of the rows; None for one with all, or the range in it.

    The range counts adds. There may be fewer adds than rows, but no add is in two ranges.
    """
    metadata = reader.metadata
    ends = list(accumulate(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)))
    parts: dict[int, range | None] = {}
    for group in row_groups:
        count = metadata.row_group(group).num_rows
        first = ends[group] - count
        part = range(max(rows.start - first, 0), min(rows.stop - first, count))
        if part:
            parts[group] = None if len(part) == count else part
    return parts


def _filtered(batch: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    """Filter a batch; all-null columns, such as most deletion vectors, are only sliced."""
    keep, count = from_mask(mask), int(np.count_nonzero(mask))
    arrays = [
        column.slice(0, count) if column.null_count == len(column) else column.filter(keep)
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
