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
from lazydelta.errors import (
    LogCorruptError,
    ResumeTokenError,
    RetentionGuardError,
    UnsupportedActionError,
)
from lazydelta.log import LogFile, LogFileKind, LogSegment
from lazydelta.protocol import CommitBatch
from lazydelta.protocol.schemas import ADD
from lazydelta.replay import BatchSpool, Reconciler, SeenFiles, Trip, find_trip
from lazydelta.scan.plan import tuning
from lazydelta.scan.plan.add_columns import adds_schema, project_adds, take_adds
from lazydelta.scan.plan.checkpoint_phase import CheckpointScan
from lazydelta.scan.plan.log_positions import INLINE, REFERENCE, START, TAIL, Position, striped
from lazydelta.scan.plan.reference_plan import reference_adds
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.snapshot import SnapshotState, undamaged_segment

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from lazydelta.config import Config
    from lazydelta.log import CommitReader
    from lazydelta.replay.skipping import Pruner
    from lazydelta.scan.plan.log_positions import Piece, Share, Unit
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
    """Executes a scan; `batches` or `placed` may be called once.

    Args:
        snapshot: The version to scan.
        pruner: Prunes files that cannot match.
        fields: The fields of the adds.
        limit: The maximum number of files.
        choice: The strategy.
        start: The position to start at.
        share: The share of the scan to run; by default all.
    """

    def __init__(
        self,
        snapshot: SnapshotState,
        *,
        pruner: Pruner,
        fields: Sequence[str],
        limit: int | None,
        choice: Choice,
        start: Position = START,
        share: Share | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._config: Config = snapshot.config
        self._pruner = pruner
        self._fields = tuple(fields)
        self._schema = adds_schema(fields)
        self._limit = limit
        self._choice = choice
        self._start = start
        self._share = share
        self._skipped_damage = False
        self._is_placed = False
        self._shares_keys = False
        self.metrics = ScanMetrics()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield live, matching adds as they are found, up to the limit."""
        with closing(self._run()) as placed:
            for batch, _ in placed:
                yield batch

    def placed(self) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Yield the same adds, each batch with the position after it."""
        self._is_placed = True
        return self._run()

    def unplaced(self) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Yield the same adds; positions are exact only if the log is not damaged."""
        return self._run()

    def _run(self) -> Generator[tuple[pa.RecordBatch, Position]]:
        started = time.perf_counter()
        count_requests = self.metrics.count_requests(self._snapshot.store)
        seen = SeenFiles(
            memory_limit=self._config.remove_set_memory_limit,
            capacity=self._config.remove_set_capacity,
            false_positive_rate=self._config.remove_set_false_positive_rate,
        )
        self._reconciler = Reconciler(seen, self._snapshot.resolver.keys)
        del seen
        self._spool = BatchSpool(memory_limit=self._config.remove_set_memory_limit)
        try:
            for placed in self._limited(striped(self._phases(), self._share)):
                if self.metrics.time_to_first_file_ms is None:
                    self.metrics.time_to_first_file_ms = 1000 * (time.perf_counter() - started)
                yield placed
                del placed  # a slice of all the adds that were decoded with it
            self.metrics.complete = True
        finally:
            seen = self._reconciler.seen
            self._record_seen_files(seen)
            self.metrics.live_files = self._exact_file_count(len(seen))
            if not self._shares_keys:
                seen.close()
            self._spool.close()
            count_requests()
            self.metrics.seconds = time.perf_counter() - started
            self._report()

    def _limited(self, pieces: Iterator[Piece]) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Yield the files after the start, up to the limit, in batches of the configured size."""
        remaining = self._limit
        if remaining == 0:
            return
        rows = self._config.batch_rows
        current, delivered, skip = self._start.unit, 0, self._start.skip
        for unit, adds in pieces:
            if unit != current:
                current, delivered = unit, 0
            skipped = min(skip, adds.num_rows)
            skip -= skipped
            delivered += skipped
            for start in range(skipped, adds.num_rows, rows):
                count = min(rows, adds.num_rows - start)
                if remaining is not None:
                    count = min(count, remaining)
                    remaining -= count
                self.metrics.files_emitted += count
                delivered += count
                yield adds.slice(start, count), Position(unit, delivered)
                if remaining == 0:
                    return
            del adds  # before the next ones are decoded
        if skip:
            reason = "its position is not in the log, which was changed"
            raise ResumeTokenError(self._snapshot.store.root, reason)
        self.metrics.reached_end = True

    def _phases(self) -> Iterator[Piece]:
        segment = self._snapshot.segment
        guard = self._config.retention_guard
        if guard is not None and not guard(segment.base_version):
            raise RetentionGuardError(segment.table, segment.base_version)
        if self._pruner.matches_nothing:
            return
        try:
            if self._choice.strategy == "reverse":
                is_first = self._starts_in((), TAIL)
                yield from self._tail(self._tail_files(segment), emits=is_first)
                self._share_keys(segment)
                yield from self._checkpoint(segment)
            else:
                yield from self._forward(segment)
        except _TrippedError as tripped:
            yield from self._spooled()
            yield from self._fallback(tripped.trip)

    def _starts_in(self, *units: Unit) -> bool:
        """Whether the run starts in a unit of one of these kinds; `()` is its beginning."""
        return self._start.unit[:1] in units

    def _forward(self, segment: LogSegment) -> Iterator[Piece]:
        """Yield the checkpoint's files first; it is decoded while the tail is read."""
        with ExitStack() as stack:
            started = None
            if segment.checkpoint is not None and self._starts_in((), INLINE, ("leaf",)):
                started = stack.enter_context(closing(self._start_checkpoint(segment)))
            emits = not self._starts_in(REFERENCE)
            for _, batch in self._tail(self._tail_files(segment), emits=emits):
                self._spool.append(batch)
            self._share_keys(segment)
            if not self._starts_in(TAIL):
                yield from self._checkpoint(segment, started)
        yield from self._spooled()

    def _spooled(self) -> Iterator[Piece]:
        for batch in self._spool.drain():
            yield TAIL, batch

    def _tail_files(self, segment: LogSegment) -> Iterator[LogFile]:
        """Yield the tail, newest first; the commits of an unusable compaction replace it."""
        for file in reversed(segment.tail):
            if file.kind is LogFileKind.COMPACTED and not is_usable_compaction(
                file, self._snapshot.commits, self._reconciler
            ):
                yield from reversed(segment.commits_of(file))
            else:
                yield file

    def _tail(
        self, newest_first: Iterable[LogFile], unit: Unit = TAIL, *, emits: bool = True
    ) -> Iterator[Piece]:
        """Yield the live adds of commits; without `emits`, only their keys are recorded."""
        for batch in self._snapshot.commits.batches(newest_first):
            self.metrics.commits_scanned += batch.commits
            trip = find_trip(batch, self._config.tripwire)
            known = batch if trip is None else _newer_than(batch, trip.version)
            del batch
            rows = self._reconciler.live_rows(known)
            if len(rows) and emits:
                adds = self._matching(take_adds(known.add, rows, known.versions, _ADD_SCHEMA))
                del known  # before the consumer takes its time
                yield unit, adds
                del adds
            if trip is not None:
                raise _TrippedError(trip)

    def _share_keys(self, segment: LogSegment) -> None:
        """Use the keys of another scan of the tail that has read it too: they are the same."""
        seen = self._reconciler.seen
        if seen.spilled_runs == 0:
            tail = tuple(file.name for file in segment.tail)
            self._reconciler.seen = self._snapshot.tail_keys.setdefault(tail, seen)
            self._shares_keys = True

    def _own_keys(self) -> None:
        """Copy the keys before others are added."""
        if self._shares_keys:
            self._reconciler.seen = self._reconciler.seen.copied()
            self._shares_keys = False

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
    ) -> Iterator[Piece]:
        if segment.checkpoint is None or self._starts_in(REFERENCE):
            return
        if self._starts_in(("older",)) and not self._skipped_damage:
            damaged = segment.checkpoint.files[0].path
            error = LogCorruptError(segment.table, damaged, "it was damaged", segment.base_version)
            yield from self._skip_damage(segment, error, Position(*self._start.unit[2]))
            return
        emitted = 0
        is_within = self._starts_in(INLINE, ("leaf",)) and not self._skipped_damage
        start = self._start if is_within else START
        try:
            with closing(started or self._start_checkpoint(segment)) as scan:
                for unit, batch in self._checkpoint_batches(scan):
                    emitted += batch.num_rows
                    yield unit, batch
                    del batch
        except LogCorruptError as error:
            # Other shares may not find it, and a second one has no exact position.
            if self._share is not None or (self._skipped_damage and self._is_placed):
                raise
            delivered = Position(start.unit, max(start.skip, emitted))
            yield from self._skip_damage(segment, error, delivered)

    def _start_checkpoint(self, segment: LogSegment, *, keys_only: bool = False) -> CheckpointScan:
        """Start a scan of the segment's checkpoint, to repeat the keys of all row groups singly."""
        assert segment.checkpoint is not None  # noqa: S101 - checked by the callers
        fields = ("path", "deletionVector") if keys_only else self._fields
        starts_within = self._starts_in(("leaf",)) and not (keys_only or self._skipped_damage)
        scan = CheckpointScan(
            self._snapshot.open_checkpoint(segment.checkpoint),
            schema=adds_schema(fields),
            fields=fields,
            pruner=self._pruner,
            reconciler=self._reconciler,
            metrics=ScanMetrics() if keys_only else self.metrics,
            first=self._start.unit[1:] if starts_within else None,
            share=self._share,
        )
        # Without a limit, decode larger batches; `_limited` slices them to the configured size.
        factor = 1 if self._limit is not None else tuning.FULL_SCAN_BATCH_FACTOR
        at_once = 1 if keys_only else self._config.checkpoint_row_groups_per_batch
        scan.start(
            rows=factor * self._config.batch_rows,
            row_groups_at_once=at_once,
            ahead=self._config.prefetch_batches > 0,
        )
        return scan

    def _checkpoint_batches(self, scan: CheckpointScan) -> Iterator[Piece]:
        inline = scan.checkpoint.inline_actions
        if inline is not None and scan.first is None:
            for batch in self._snapshot.commits.batches([inline]):
                rows = np.flatnonzero(to_mask(batch.add.is_valid()))
                adds = self._matching(take_adds(batch.add, rows, batch.versions, _ADD_SCHEMA))
                # A checkpoint does not record the commit of an add.
                unknown = pa.nulls(adds.num_rows, pa.int64())
                adds = adds.set_column(adds.schema.names.index("version"), "version", unknown)
                live = self._reconciler.is_live(adds.column("path"), adds.column("deletionVector"))
                yield INLINE, adds if live is None else adds.filter(from_mask(live))
        yield from scan.batches()

    def _skip_damage(
        self, segment: LogSegment, error: LogCorruptError, delivered: Position
    ) -> Iterator[Piece]:
        """Continue from an older segment, without the files that were already delivered."""
        older = undamaged_segment(self._snapshot.store, self._config, segment, error)
        name = "" if older.checkpoint is None else older.checkpoint.name
        if self._starts_in(("older",)) and self._start.unit[1] != name:
            reason = "a checkpoint was damaged, and the one before it was replaced"
            raise ResumeTokenError(segment.table, reason)
        self._skipped_damage = True
        self._own_keys()
        self._mark_delivered(segment, delivered)
        unit = ("older", name, delivered)
        below = [file for file in older.commits if file.version <= segment.base_version]
        for _, batch in self._tail(reversed(below)):
            yield unit, batch
        for _, batch in self._checkpoint(replace(older, version=segment.version)):
            yield unit, batch

    def _mark_delivered(self, segment: LogSegment, delivered: Position) -> None:
        """Record the keys of a checkpoint up to a position in it."""
        left = delivered.skip
        if not left:
            return
        with closing(self._start_checkpoint(segment, keys_only=True)) as scan:
            for unit, batch in self._checkpoint_batches(scan):
                is_within = unit[1:] >= delivered.unit[1:]
                batch = batch.slice(0, left) if is_within else batch  # noqa: PLW2901
                self._reconciler.mark_emitted(batch.column("path"), batch.column("deletionVector"))
                left -= batch.num_rows if is_within else 0
                if not left:  # what follows may be damaged
                    return

    def _fallback(self, trip: Trip) -> Iterator[Piece]:
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
            adds = adds if unseen is None else adds.filter(from_mask(unseen))  # noqa: PLW2901
            yield REFERENCE, self._matching(adds)

    def _exact_file_count(self, seen_keys: int) -> int | None:
        """Return the number of files of the version, if it is known without further reads.

        The paths of adds that were pruned in a checkpoint are mostly not read, so it is unknown
        whether the tail supersedes them.
        """
        metrics, has_checkpoint = self.metrics, self._snapshot.segment.checkpoint is not None
        if self._share is not None or self._start != START:
            return self._snapshot.num_files
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
