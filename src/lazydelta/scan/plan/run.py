"""One run of a scan: phases, limit, tripwire, and recovery from a damaged checkpoint.

Every live file is emitted exactly once. The keys of the tail are recorded before a file is emitted,
so the checkpoint, the reference replay after a trip and an older checkpoint after damage emit only
files that were not emitted before.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta import metrics
from lazydelta._arrow import from_mask, to_mask
from lazydelta.errors import LogCorruptError, RetentionGuardError, UnsupportedActionError
from lazydelta.log import LogFile, LogFileKind, LogSegment
from lazydelta.protocol import CommitBatch
from lazydelta.protocol.schemas import ADD
from lazydelta.replay import BatchSpool, Reconciler, SeenFiles, Trip, find_trip
from lazydelta.scan.plan import tuning
from lazydelta.scan.plan.add_columns import adds_schema, project_adds, take_adds
from lazydelta.scan.plan.checkpoint_phase import CheckpointScan
from lazydelta.scan.plan.reference_plan import reference_adds
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.snapshot import SnapshotState, undamaged_segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.config import Config
    from lazydelta.log import CommitReader
    from lazydelta.replay.skipping import Pruner
    from lazydelta.scan.plan.strategy import Choice

__all__ = ["ScanRun", "is_usable_compaction"]

logger = logging.getLogger(__name__)

_ADD_SCHEMA = pa.schema([*ADD, ("version", pa.int64())])


def is_usable_compaction(compacted: LogFile, commits: CommitReader, reconciler: Reconciler) -> bool:
    """Whether a log compaction is readable and has one action per file.

    Two actions for one file have no order within a compaction.
    """
    try:
        keys = [reconciler.keys(batch) for batch in commits.batches([compacted])]
    except LogCorruptError as error:
        logger.warning("ignoring a damaged compaction: %s", error)
        return False
    all_keys = pa.chunked_array(keys, pa.string())
    if len(all_keys.unique()) == len(all_keys):
        return True
    logger.warning("ignoring %s: it has several actions for one file", compacted.path)
    return False


class _TrippedError(Exception):
    """The tail has an action that the lazy scan must not ignore."""

    def __init__(self, trip: Trip) -> None:
        super().__init__(trip)
        self.trip = trip


class ScanRun:
    """Executes a scan; `batches` may be called once."""

    def __init__(
        self,
        snapshot: SnapshotState,
        *,
        pruner: Pruner,
        fields: Sequence[str],
        limit: int | None,
        choice: Choice,
    ) -> None:
        self._snapshot = snapshot
        self._config: Config = snapshot.config
        self._pruner = pruner
        self._fields = tuple(fields)
        self._schema = adds_schema(fields)
        self._limit = limit
        self._choice = choice
        self._skipped_damage = False
        self.metrics = ScanMetrics()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield live, matching adds as they are found, up to the limit."""
        started = time.perf_counter()
        count_requests = self.metrics.count_requests(self._snapshot.store)
        seen = SeenFiles(
            memory_limit=self._config.remove_set_memory_limit,
            capacity=self._config.remove_set_capacity,
            false_positive_rate=self._config.remove_set_false_positive_rate,
        )
        self._reconciler = Reconciler(seen, self._snapshot.resolver.keys)
        self._spool = BatchSpool(memory_limit=self._config.remove_set_memory_limit)
        try:
            for batch in self._limited(self._phases()):
                if self.metrics.time_to_first_file_ms is None:
                    self.metrics.time_to_first_file_ms = 1000 * (time.perf_counter() - started)
                yield batch
            self.metrics.complete = True
        finally:
            self._record_seen_files(seen)
            self.metrics.live_files = self._exact_file_count(len(seen))
            seen.close()
            self._spool.close()
            count_requests()
            self.metrics.seconds = time.perf_counter() - started
            self._report()

    def _limited(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        remaining = self._limit
        if remaining == 0:
            return
        rows = self._config.batch_rows
        for adds in batches:
            for start in range(0, adds.num_rows, rows):
                batch = adds.slice(start, rows)
                if remaining is not None:
                    batch = batch.slice(0, remaining)
                    remaining -= batch.num_rows
                self.metrics.files_emitted += batch.num_rows
                yield batch
                if remaining == 0:
                    return
        self.metrics.reached_end = True

    def _phases(self) -> Iterator[pa.RecordBatch]:
        segment = self._snapshot.segment
        guard = self._config.retention_guard
        if guard is not None and not guard(segment.base_version):
            raise RetentionGuardError(segment.table, segment.base_version)
        if self._pruner.matches_nothing:
            return
        try:
            if self._choice.strategy == "reverse":
                yield from self._tail(self._tail_files(segment))
                yield from self._checkpoint(segment)
            else:
                yield from self._forward(segment)
        except _TrippedError as tripped:
            yield from self._spool.drain()
            yield from self._fallback(tripped.trip)

    def _forward(self, segment: LogSegment) -> Iterator[pa.RecordBatch]:
        """Yield the checkpoint's files first; it is decoded while the tail is read."""
        with ExitStack() as stack:
            checkpoint_scan = None
            if segment.checkpoint is not None:
                checkpoint_scan = stack.enter_context(closing(self._start_checkpoint(segment)))
            for batch in self._tail(self._tail_files(segment)):
                self._spool.append(batch)
            yield from self._checkpoint(segment, checkpoint_scan)
        yield from self._spool.drain()

    def _tail_files(self, segment: LogSegment) -> Iterator[LogFile]:
        """Yield the tail, newest first; the commits of an unusable compaction replace it."""
        for file in reversed(segment.tail):
            if file.kind is LogFileKind.COMPACTED and not is_usable_compaction(
                file, self._snapshot.commits, self._reconciler
            ):
                yield from reversed(segment.commits_of(file))
            else:
                yield file

    def _tail(self, newest_first: Iterable[LogFile]) -> Iterator[pa.RecordBatch]:
        for batch in self._snapshot.commits.batches(newest_first):
            self.metrics.commits_scanned += batch.commits
            trip = find_trip(batch, self._config.tripwire)
            if trip is not None:
                yield from self._live_adds(_newer_than(batch, trip.version))
                raise _TrippedError(trip)
            yield from self._live_adds(batch)

    def _live_adds(self, batch: CommitBatch) -> Iterator[pa.RecordBatch]:
        rows = self._reconciler.live_rows(batch)
        if len(rows):
            yield self._matching(take_adds(batch.add, rows, batch.versions, _ADD_SCHEMA))

    def _matching(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return the adds that may match, with the requested fields."""
        mask = self._pruner.mask(adds)
        if mask is not None:
            matching = adds.filter(mask)
            self.metrics.files_pruned += adds.num_rows - matching.num_rows
            adds = matching
        return project_adds(adds, self._schema)

    def _checkpoint(
        self, segment: LogSegment, started: CheckpointScan | None = None
    ) -> Iterator[pa.RecordBatch]:
        if segment.checkpoint is None:
            return
        emitted = 0
        try:
            with closing(started or self._start_checkpoint(segment)) as scan:
                for batch in self._checkpoint_batches(scan):
                    emitted += batch.num_rows
                    yield batch
        except LogCorruptError as error:
            yield from self._skip_damage(segment, error, emitted)

    def _start_checkpoint(
        self, segment: LogSegment, fields: Sequence[str] = (), metrics: ScanMetrics | None = None
    ) -> CheckpointScan:
        """Start a scan of the segment's checkpoint."""
        assert segment.checkpoint is not None  # noqa: S101 - checked by the callers
        scan = CheckpointScan(
            self._snapshot.open_checkpoint(segment.checkpoint),
            schema=adds_schema(fields or self._fields),
            fields=fields or self._fields,
            pruner=self._pruner,
            reconciler=self._reconciler,
            metrics=metrics or self.metrics,
        )
        # Without a limit, decode larger batches; `_limited` slices them to the configured size.
        factor = 1 if self._limit is not None else tuning.FULL_SCAN_BATCH_FACTOR
        scan.start(
            rows=factor * self._config.batch_rows,
            row_groups_at_once=self._config.checkpoint_row_groups_per_batch,
        )
        return scan

    def _checkpoint_batches(self, scan: CheckpointScan) -> Iterator[pa.RecordBatch]:
        inline = scan.checkpoint.inline_actions
        if inline is not None:
            for batch in self._snapshot.commits.batches([inline]):
                rows = np.flatnonzero(to_mask(batch.add.is_valid()))
                adds = self._matching(take_adds(batch.add, rows, batch.versions, _ADD_SCHEMA))
                # A checkpoint does not record the commit of an add.
                unknown = pa.nulls(adds.num_rows, pa.int64())
                adds = adds.set_column(adds.schema.names.index("version"), "version", unknown)
                live = self._reconciler.is_live(adds.column("path"), adds.column("deletionVector"))
                yield adds if live is None else adds.filter(from_mask(live))
        yield from scan.batches()

    def _skip_damage(
        self, segment: LogSegment, error: LogCorruptError, emitted: int
    ) -> Iterator[pa.RecordBatch]:
        """Continue from an older segment, without the files that were already emitted."""
        older = undamaged_segment(self._snapshot.store, self._config, segment, error)
        self._skipped_damage = True
        keys_only = ("path", "deletionVector")
        with closing(self._start_checkpoint(segment, keys_only, ScanMetrics())) as scan:
            again = self._checkpoint_batches(scan)
            while emitted > 0:
                batch = next(again).slice(0, emitted)
                emitted -= batch.num_rows
                self._reconciler.mark_emitted(batch.column("path"), batch.column("deletionVector"))
        below = [file for file in older.commits if file.version <= segment.base_version]
        yield from self._tail(reversed(below))
        yield from self._checkpoint(replace(older, version=segment.version))

    def _fallback(self, trip: Trip) -> Iterator[pa.RecordBatch]:
        """Yield the live adds of the reference replay that this scan has not seen."""
        table = self._snapshot.store.root
        if not self._config.enable_fallback:
            raise UnsupportedActionError(table, trip.version, trip.action)
        self.metrics.fallback_triggered += 1
        logger.info("%s: %s at version %d: falling back", table, trip.action, trip.version)
        event = metrics.FallbackTriggered(table=table, version=trip.version, action=trip.action)
        metrics.notify(self._config.observer, event)
        for adds in reference_adds(self._snapshot):
            unseen = self._reconciler.is_live(adds.column("path"), adds.column("deletionVector"))
            yield self._matching(adds if unseen is None else adds.filter(from_mask(unseen)))

    def _exact_file_count(self, seen_keys: int) -> int | None:
        """Return the number of files of the version, if it is known without further reads.

        The paths of adds that were pruned in a checkpoint are mostly not read, so it is unknown
        whether the tail supersedes them.
        """
        metrics, has_checkpoint = self.metrics, self._snapshot.segment.checkpoint is not None
        is_counted = metrics.reached_end and not self._pruner.matches_nothing
        was_rerouted = metrics.fallback_triggered or self._skipped_damage
        is_simple = not (has_checkpoint and seen_keys) and not was_rerouted
        if is_counted and (is_simple or not metrics.files_pruned):
            return metrics.files_emitted + metrics.files_pruned
        return self._snapshot.num_files

    def _record_seen_files(self, seen: SeenFiles) -> None:
        self.metrics.remove_set_size = len(seen)
        self.metrics.remove_set_bytes = seen.memory_bytes
        self.metrics.remove_set_spilled_runs = seen.spilled_runs
        self.metrics.commit_bytes = self._snapshot.commits.bytes_read

    def _report(self) -> None:
        table, counts = self._snapshot.store.root, self.metrics
        logger.info(
            "%s version %d: %d files in %.3f s",
            table, self._snapshot.version, counts.files_emitted, counts.seconds,
        )  # fmt: skip
        if self._config.observer is not None:
            event = metrics.ScanFinished(
                table=table,
                version=self._snapshot.version,
                strategy=self._choice.strategy,
                complete=counts.complete,
                metrics=counts.named(),
            )
            metrics.notify(self._config.observer, event)


def _newer_than(batch: CommitBatch, version: int) -> CommitBatch:
    """Return the rows of a batch above a version.

    The result is never `complete`: removes that wait for the end of their commit must not hide its
    adds from the reference replay, which applies that commit as a whole.
    """
    count = int(np.count_nonzero(batch.versions > version))
    return CommitBatch(
        add=batch.add.slice(0, count),
        remove=batch.remove.slice(0, count),
        versions=batch.versions[:count],
        others=(),
        commits=0,
        complete=False,
    )
