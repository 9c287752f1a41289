"""Planned files -> rows: Arrow batches in the table's logical schema, while planning continues.

A file becomes rows in one pass: open, skip row groups by the footer, decode, convert to the table's
types (`scan.read.transform`), drop deleted rows (`formats.deletion_vectors`) and rows that do not
match. `scan.read.pipeline` bounds the files read in parallel and the memory of finished batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from lazydelta._parallel import prefetch
from lazydelta._stream import Stream
from lazydelta.config import ReadOptions
from lazydelta.expressions import split_conjuncts, to_skipping
from lazydelta.scan import tuning
from lazydelta.scan.plan.log_positions import START, Position, RowPosition
from lazydelta.scan.plan.run import ScanRun
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.scan.read.file_reader import FileReader
from lazydelta.scan.read.file_stores import FileStores
from lazydelta.scan.read.file_tasks import (
    ADD_FIELDS,
    IDENTITY_FIELD,
    ROW_TRACKING_FIELDS,
    FileTasks,
)
from lazydelta.scan.read.file_templates import FileTemplates
from lazydelta.scan.read.pipeline import B, read_ahead, threads_for
from lazydelta.scan.read.read_path import ReadRequest
from lazydelta.scan.read.row_limit import RowLimit
from lazydelta.scan.read.row_placement import PlacedRows, placed_rows
from lazydelta.scan.read.row_projection import RowProjection
from lazydelta.scan.read.small_files import SmallFileBatches
from lazydelta.store import is_local
from lazydelta.store.layers import disk_cache_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.replay.skipping import Pruner
    from lazydelta.scan.plan.log_positions import Share
    from lazydelta.scan.plan.strategy import Choice
    from lazydelta.scan.read.chosen_rows import ChosenRows
    from lazydelta.scan.read.file_reader import FileBatch
    from lazydelta.scan.read.file_tasks import FileTask
    from lazydelta.snapshot import SnapshotState

__all__ = ["ReadOptions", "ReadableScan", "Reading", "Resumption", "read_files"]


class ReadableScan(Protocol):
    """The parts of a `Scan` that reading uses."""

    snapshot: SnapshotState
    columns: tuple[str, ...] | None
    limit: int | None
    _pruner: Pruner
    _choice: Choice
    _last_run: ScanMetrics | None

    @property
    def predicate(self) -> Predicate | None:
        """The predicate, bound to the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Where a read that can be resumed starts, and what is left of it."""

    start: RowPosition
    share: Share | None
    limit: int | None
    """The maximum number of rows that are left."""

    @property
    def limit_from_group(self) -> int | None:
        """The same, with the rows of the first row group that were delivered."""
        return None if self.limit is None else self.limit + self.start.rows


def read_files(
    scan: ReadableScan,
    adds: Iterable[pa.RecordBatch],
    columns: Sequence[str] | None = None,
    options: ReadOptions | None = None,
    *,
    rows: ChosenRows | None = None,
) -> Stream[pa.RecordBatch]:
    """Return the rows of some files of a scan that satisfy its predicate.

    Args:
        scan: The scan; its plan is not used.
        adds: The files to read, as add actions with the fields path, size, partitionValues and
            deletionVector.
        columns: The columns to return; by default the scan's.
        options: Read options.
        rows: The rows to read of some files; None reads all.
    """
    options = ReadOptions() if options is None else options
    return Stream(Reading(scan, options, lambda: iter(adds), columns, rows=rows).batches())


class Reading:
    """One read of a scan's rows.

    Args:
        scan: The scan.
        options: Read options.
        adds: Returns the files to read, as add actions with `ADD_FIELDS`; by default the scan's.
        columns: The columns to return; by default the scan's.
        views: Whether strings and binaries may be returned as views where that saves work.
        rows: The rows to read of some files; None reads all.
        resumption: Where to start, for `placed`; its limit replaces the scan's.
    """

    def __init__(
        self,
        scan: ReadableScan,
        options: ReadOptions,
        adds: Callable[[], Iterator[pa.RecordBatch]] | None = None,
        columns: Sequence[str] | None = None,
        *,
        views: bool = False,
        rows: ChosenRows | None = None,
        resumption: Resumption | None = None,
    ) -> None:
        self._scan = scan
        self._options = options
        self._resumption = resumption
        self._first_group = 0 if resumption is None else resumption.start.row_group
        self._limit = scan.limit if resumption is None else resumption.limit_from_group
        self._adds = self._plan if adds is None else lambda: ((batch, START) for batch in adds())
        self._metrics = ScanMetrics()
        snapshot = scan.snapshot
        exact, residual = (
            (None, None) if scan.predicate is None else split_conjuncts(scan.predicate)
        )
        columns = scan.columns if columns is None else columns
        self.projection = _projection(snapshot, columns, residual, options)
        # Without a filter all rows of a file count toward the limit: enough files end the plan.
        self._row_limit = RowLimit(self._limit if residual is None else None)
        stores = FileStores(snapshot.store, snapshot.config)
        templates = FileTemplates.build(
            self.projection, snapshot.store, has_limit=self._limit is not None
        )
        self._tasks_of = FileTasks(snapshot, self.projection, exact, stores, rows)
        self._batches_of = SmallFileBatches(templates)
        self._num_files = self._num_bytes = 0  # of files that were started
        self._width = threads_for(snapshot.store, options.files_at_once)
        self._cores = threads_for(snapshot.store, None)
        request = self._request(residual, views=views)
        self._files = self._file_reader(request, residual, templates, stores)

    def _file_reader(
        self,
        request: ReadRequest,
        residual: Predicate | None,
        templates: FileTemplates,
        stores: FileStores,
    ) -> FileReader:
        pushdown = residual if request.pushes_down else None
        return FileReader(
            self._scan.snapshot,
            self._options,
            request=request,
            projection=self.projection,
            rule=None if pushdown is None else to_skipping(pushdown),
            templates=templates,
            stores=stores,
            limit=self._row_limit,
            num_files=lambda: self._num_files,
            uses_threads=lambda: min(self._num_files, self._width) < self._cores,
        )

    def _request(self, residual: Predicate | None, *, views: bool) -> ReadRequest:
        limit, batch_rows = self._limit, self._options.batch_rows
        if limit is not None:
            batch_rows = min(batch_rows, max(limit, tuning.MIN_LIMITED_BATCH_ROWS))
        return ReadRequest(
            has_filter=residual is not None,
            has_limit=limit is not None,
            needs_positions=self.projection.needs_positions,
            is_resumable=self._resumption is not None,
            pushes_down=residual is not None and self._options.enable_parquet_pushdown,
            views=views and residual is None,  # pyarrow cannot take rows of views
            batch_rows=batch_rows,
        )

    def batches(self, *, keeps_all: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows, up to the limit.

        Args:
            keeps_all: Whether the caller only collects the batches.
        """
        left = self._limit
        if left == 0:
            return
        with Stream(self._read_ahead(self._read, keeps_all=keeps_all and left is None)) as batches:
            for batch in batches:
                if left is None:
                    yield batch
                    continue
                batch = batch.slice(0, left)  # noqa: PLW2901 - the rest exceeds the limit
                left -= batch.num_rows
                yield batch
                if not left:
                    return

    def placed(self) -> Iterator[tuple[pa.RecordBatch, RowPosition]]:
        """Yield the rows after the start, up to the limit, with the position after each batch."""
        assert self._resumption is not None  # noqa: S101 - for such reads only
        return placed_rows(
            self._read_ahead(self._read_placed, keeps_all=False),
            skip=self._resumption.start.rows,
            limit=self._resumption.limit,
            table=self._scan.snapshot.store.root,
        )

    def _read_ahead(
        self, read: Callable[[Sequence[FileTask]], Iterator[B]], *, keeps_all: bool
    ) -> Iterator[B]:
        width, scan = self._width, self._scan
        is_chosen = self._options.files_at_once is not None
        if not (is_chosen or is_local(scan.snapshot.store) or self._limit is not None):
            width = tuning.REMOTE_SMALL_FILES
        return read_ahead(
            self._tasks(),
            read,
            width=width,
            may_start=self._may_start,
            memory_limit=self._options.memory_limit,
            ordered=self._options.ordered,
            keeps_all=keeps_all,
        )

    def _may_start(self, num_running: int) -> bool:
        """Whether to read another file in parallel: more of small files, which mostly wait."""
        if num_running < self._width:
            return True
        return num_running * self._num_bytes < tuning.REMOTE_BYTES * self._num_files

    def _read(self, tasks: Sequence[FileTask]) -> Iterator[pa.RecordBatch]:
        for batch in self._read_each(tasks):
            yield batch.rows

    def _read_placed(self, tasks: Sequence[FileTask]) -> Iterator[PlacedRows]:
        file, row_group, count = tasks[0], tasks[0].first_group, 0
        for batch in self._read_each(tasks):
            if batch.file is not file or batch.row_group > row_group:
                file, row_group, count = batch.file, batch.row_group, 0
            count += batch.rows.num_rows
            yield PlacedRows(batch.rows, RowPosition(file.place, row_group, count))

    def _read_each(self, tasks: Sequence[FileTask]) -> Iterator[FileBatch]:
        try:
            yield from self._files.read(tasks)
        except BaseException:  # a thread that waits for the rows of this file has to end
            self._row_limit.stop()
            raise

    def _plan(self) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Return the add actions of the scan; those of a remote table are prefetched by a thread.

        A local table is planned by the reading threads: there is nothing to wait for, and threads
        that run Python in parallel only block each other. Nor is a plan prefetched of which the
        first file may be enough.
        """
        snapshot, scan = self._scan.snapshot, self._scan
        tracking = ROW_TRACKING_FIELDS if self.projection.tracks_rows else ()
        identity = () if disk_cache_of(snapshot.store) is None else (IDENTITY_FIELD,)
        resumption = self._resumption
        run = ScanRun(
            snapshot,
            pruner=scan._pruner,  # noqa: SLF001 - a scan and its reader are one room
            fields=(*ADD_FIELDS, *tracking, *identity),
            limit=None,
            choice=scan._choice,  # noqa: SLF001
            start=START if resumption is None else resumption.start.file,
            share=None if resumption is None else resumption.share,
        )
        run.metrics.take(0)
        scan._last_run = self._metrics = run.metrics  # noqa: SLF001
        adds = run.placed if resumption is not None else run.unplaced
        if is_local(snapshot.store) or self._row_limit.is_active:
            return adds()
        return prefetch(adds, depth=snapshot.config.prefetch_batches)

    def _tasks(self) -> Iterator[Sequence[FileTask]]:
        with Stream(self._adds()) as batches:
            for adds, end in batches:
                for tasks in self._batches_of.of(self._started(self._tasks_of.of(adds, end))):
                    self._metrics.take(len(tasks))
                    self._num_files += len(tasks)
                    self._num_bytes += sum(task.size or 0 for task in tasks)
                    yield tasks
                    if not self._row_limit.admit():
                        return

    def _started(self, tasks: Iterator[FileTask]) -> Iterator[FileTask]:
        """Yield the files; the first one of a resumed read starts at a row group."""
        for task in tasks:
            row_group, self._first_group = self._first_group, 0
            yield replace(task, first_group=row_group) if row_group else task


def _projection(
    snapshot: SnapshotState,
    columns: Sequence[str] | None,
    residual: Predicate | None,
    options: ReadOptions,
) -> RowProjection:
    return RowProjection.build(
        snapshot,
        columns=columns,
        residual=residual,
        file_column=options.file_column_name,
        row_index_column=options.row_index_column,
        row_id_column=options.row_id_column,
        row_commit_version_column=options.row_commit_version_column,
    )
