"""Planned files -> rows: Arrow batches in the table's logical schema, while planning goes on.

A file becomes rows in one pass: open, choose row groups by the footer, decode, bring to the
table's types (`scan.read.transform`), drop what is deleted (`formats.deletion_vectors`) or does not match. How
many files are read at once, and what may wait for a slow consumer, is `scan.read.pipeline`'s.
"""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._parallel import prefetch
from lazydelta._stream import Stream
from lazydelta.config import ReadOptions
from lazydelta.errors import (
    DataFileError,
    DataFileNotFoundError,
    DeletionVectorError,
    ObjectNotFoundError,
)
from lazydelta.expressions import evaluate, split_conjuncts, to_skipping
from lazydelta.expressions.nodes import Column
from lazydelta.formats import BadVariantError, DeletedRows, DeletionVectorGroup
from lazydelta.parquet import DataFile, Rows, matching_row_groups, selected_rows
from lazydelta.scan.plan.partition_arrays import partition_columns
from lazydelta.scan.plan.run import ScanRun
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.scan.read.file_stores import FileStores
from lazydelta.scan.read.late_materialization import LateMaterialization
from lazydelta.scan.read.pipeline import read_ahead, threads_for
from lazydelta.scan.read.row_projection import FileProjection, RowProjection
from lazydelta.scan.read.small_files import SmallFileReader
from lazydelta.scan.read.transform import FileSchemaError
from lazydelta.store import is_local, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.protocol.paths import Location
    from lazydelta.replay.skipping import Pruner
    from lazydelta.scan.plan.strategy import Choice
    from lazydelta.snapshot import SnapshotState

__all__ = ["ADD_FIELDS", "ReadOptions", "ReadableScan", "Reading", "read_files"]

ADD_FIELDS = ("path", "size", "partitionValues", "deletionVector")
"""What reading a file needs of its add."""

_TRACKING = ("baseRowId", "defaultRowCommitVersion")
_VECTORS_AT_ONCE = 32
_LEAST_BATCH = 1024


class ReadableScan(Protocol):
    """What a `Scan` offers to its reader."""

    snapshot: SnapshotState
    columns: tuple[str, ...] | None
    limit: int | None
    _pruner: Pruner
    _choice: Choice
    _last_run: ScanMetrics | None

    @property
    def predicate(self) -> Predicate | None:
        """The predicate, bound to the schema."""


def read_files(
    scan: ReadableScan,
    adds: Iterable[pa.RecordBatch],
    columns: Sequence[str] | None = None,
    options: ReadOptions | None = None,
) -> Stream[pa.RecordBatch]:
    """Return the rows of some files of a scan that satisfy its predicate.

    Args:
        scan: What to read, but for its plan.
        adds: The files to read, with the columns of `ADD_FIELDS`.
        columns: The columns to show; by default the scan's.
        options: How they are read.
    """
    options = ReadOptions() if options is None else options
    return Stream(Reading(scan, options, lambda: iter(adds), columns).batches())


@dataclass(frozen=True, slots=True, eq=False)
class _FileTask:
    """One file to read."""

    path: str
    shown_path: str
    size: int | None
    vectors: DeletionVectorGroup
    place: int
    constants: Mapping[str, pa.Scalar]
    has_vector: bool
    base_row_id: int | None = None
    row_commit_version: int | None = None


class Reading:
    """One read of a scan's rows.

    Args:
        scan: What to read.
        options: How.
        adds: Gives the files to read, as actions with `ADD_FIELDS`; by default the scan's.
        columns: The columns to show; by default the scan's.
        views: Whether texts and bytes may come as views where that saves work.
    """

    def __init__(
        self,
        scan: ReadableScan,
        options: ReadOptions,
        adds: Callable[[], Iterator[pa.RecordBatch]] | None = None,
        columns: Sequence[str] | None = None,
        *,
        views: bool = False,
    ) -> None:
        self._adds = self._planned if adds is None else adds
        self._counters = ScanMetrics()
        self._scan = scan
        self._snapshot = snapshot = scan.snapshot
        self._options = options
        self._table = snapshot.store.root
        self._exact, self._residual = None, None
        if scan.predicate is not None:
            self._exact, self._residual = split_conjuncts(scan.predicate)
        self.shape = RowProjection.build(
            snapshot,
            columns=scan.columns if columns is None else columns,
            residual=self._residual,
            file_column=options.file_column_name,
            row_id_column=options.row_id_column,
            row_commit_version_column=options.row_commit_version_column,
        )
        self._takes_views = views and self._residual is None  # pyarrow cannot choose among them
        pushed = self._residual if options.enable_parquet_pushdown else None
        self._looks_first = pushed is not None
        self._rule = None if pushed is None else to_skipping(pushed)
        self._places = FileStores(snapshot.store, snapshot.config)
        self._lock = threading.Lock()
        self._probe = LateMaterialization()
        self._certain = 0  # rows of files that were opened, where every row counts
        self._width = threads_for(snapshot.store, options.files_at_once)
        self._together = SmallFileReader.build(
            self.shape, snapshot.store, has_limit=scan.limit is not None
        )
        self._files = 0  # that were given to threads
        self._cores = threads_for(snapshot.store, None)

    def batches(self, *, keeps_all: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows, up to the limit.

        Args:
            keeps_all: Whether nothing is done with them before the last has come.
        """
        left = self._scan.limit
        if left == 0:
            return
        with Stream(self._unlimited(keeps_all=keeps_all and left is None)) as batches:
            for batch in batches:
                if left is None:
                    yield batch
                    continue
                batch = batch.slice(0, left)  # noqa: PLW2901 - the rest is not wanted
                left -= batch.num_rows
                yield batch
                if not left:
                    return

    def _unlimited(self, *, keeps_all: bool) -> Iterator[pa.RecordBatch]:
        return read_ahead(
            self._tasks(),
            self._read,
            width=self._width,
            memory_limit=self._options.memory_limit,
            ordered=self._options.ordered,
            keeps_all=keeps_all,
        )

    # --- files to read ----------------------------------------------------------------------

    def _planned(self) -> Iterator[pa.RecordBatch]:
        """Return the adds of the scan; of a remote table they are found by a thread of its own.

        Of a local one whoever reads files finds them: there is nothing to wait for, and threads
        that run Python at the same time only hold each other up.
        """
        run = ScanRun(
            self._snapshot,
            pruner=self._scan._pruner,  # noqa: SLF001 - a scan and its reader are one room
            fields=(*ADD_FIELDS, *_TRACKING) if self.shape.tracks_rows else ADD_FIELDS,
            limit=None,
            choice=self._scan._choice,  # noqa: SLF001
        )
        run.metrics.take(0)
        self._scan._last_run = self._counters = run.metrics  # noqa: SLF001
        if is_local(self._snapshot.store):
            return run.batches()
        return prefetch(run.batches, depth=self._snapshot.config.prefetch_batches)

    def _tasks(self) -> Iterator[Sequence[_FileTask]]:
        with Stream(self._adds()) as batches:
            for adds in batches:
                for tasks in self._together.grouped(self._tasks_of(adds)):
                    self._counters.take(len(tasks))
                    self._files += len(tasks)
                    yield tasks
                    if self._is_certain():
                        return

    def _is_certain(self) -> bool:
        """Whether the files opened so far have all the rows that are wanted."""
        limit = self._scan.limit
        return limit is not None and self._residual is None and self._certain >= limit

    def _tasks_of(self, adds: pa.RecordBatch) -> Iterator[_FileTask]:
        constants = self._partition_columns(adds)
        if self._exact is not None:
            known = constants
            keep = evaluate(self._exact, lambda column: known[column.path[0]], adds.num_rows)
            adds = adds.filter(keep)
            constants = {name: array.filter(keep) for name, array in constants.items()}
        for start in range(0, adds.num_rows, _VECTORS_AT_ONCE):
            part = adds.slice(start, _VECTORS_AT_ONCE)
            values = {name: array.slice(start) for name, array in constants.items()}
            yield from self._tasks_of_part(part, values)

    def _tasks_of_part(
        self, adds: pa.RecordBatch, constants: Mapping[str, pa.Array]
    ) -> Iterator[_FileTask]:
        resolver = self._snapshot.resolver
        paths, sizes = adds.column("path").to_pylist(), adds.column("size").to_pylist()
        shown = resolver.decoded(adds.column("path")).to_pylist()
        vectors = adds.column("deletionVector").to_pylist()
        group = DeletionVectorGroup(
            list(zip(shown, vectors, strict=True)), resolver, self._places.store
        )
        tracked: list[Sequence[Any]] = [[None] * len(paths)] * 2
        if self.shape.tracks_rows:
            tracked = [adds.column(name).to_pylist() for name in _TRACKING]
        for at, path in enumerate(paths):
            values = {name: array[at] for name, array in constants.items()}
            yield _FileTask(
                path, shown[at], sizes[at], group, at, values,
                vectors[at] is not None, tracked[0][at], tracked[1][at],
            )  # fmt: skip

    def _partition_columns(self, adds: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the typed partition values of the files, for the columns that matter."""
        wanted = set(self.shape.partition_columns)
        if self._exact is not None:
            wanted |= {node.path[0] for node in self._exact.walk() if isinstance(node, Column)}
        return partition_columns(self._snapshot, adds.column("partitionValues"), wanted)

    # --- small files, which are read together -------------------------------------------------

    def _read(self, tasks: Sequence[_FileTask]) -> Iterator[pa.RecordBatch]:
        """Read files in their order, those that are alike in one go."""
        left, is_group = tasks, len(tasks) > 1
        while left:
            done = 0
            if is_group:
                batch, done = self._read_together(left)
                if batch is not None:
                    most = self._options.batch_rows
                    yield from (batch[at : at + most] for at in range(0, batch.num_rows, most))
            if done < len(left):
                yield from self._read_one(left[done], is_pattern=is_group)
            left = left[done + 1 :]

    def _read_together(self, tasks: Sequence[_FileTask]) -> tuple[pa.RecordBatch | None, int]:
        """Return rows of the first of some files, and how many; the next says what is with it."""
        places = [self._snapshot.resolver.to_open(task.path) for task in tasks]
        try:
            paths = [local_path(self._places.store(place), place.path) for place in places]
            return self._together.read(paths, tasks[0])
        except (FileSchemaError, ObjectNotFoundError, pa.ArrowException):
            return None, 0

    # --- one file ---------------------------------------------------------------------------

    def _read_one(self, task: _FileTask, *, is_pattern: bool) -> Iterator[pa.RecordBatch]:
        place = self._snapshot.resolver.to_open(task.path)
        deleted = task.vectors.take(task.place)
        shown = 0
        learns = self._residual is None and self._together.tries_each
        if learns:
            came = yield from self._read_like(task, place, deleted)
            if came is None:
                return
            shown = came
        try:
            file = DataFile(
                self._places.store(place), place.path, task.size,
                inflated_limit=self._options.max_inflated_bytes,
                rebase_mode=self._options.datetime_rebase_mode,
                threads=min(self._files, self._width) < self._cores,  # else files keep them busy
            )  # fmt: skip
        except ObjectNotFoundError:
            version = self._snapshot.version
            raise DataFileNotFoundError(self._table, task.shown_path, version) from None
        with closing(file):
            self._note(file.num_rows, task, deleted)
            try:
                yield from _behind(self._rows(file, task, deleted), shown)
                if is_pattern or learns:
                    self._together.learn(file, views=self._takes_views)
            except (FileSchemaError, BadVariantError, pa.ArrowException) as error:
                reason = " ".join(str(error).split())
                raise DataFileError(self._table, task.shown_path, reason) from error

    def _read_like(
        self, task: _FileTask, place: Location, deleted: DeletedRows | None
    ) -> Generator[pa.RecordBatch, None, int | None]:
        """Yield the rows of a file if it is like one before; return None if these are all.

        Else how many they are. Then it has to be read by itself, which says what is wrong with it.
        """
        shown = 0
        try:
            file = self._together.open(local_path(self._places.store(place), place.path))
            if file is None:
                return shown
            self._note(file.num_rows, task, deleted)
            for batch in file.batches(task, deleted, batch_rows=self._options.batch_rows):
                shown += batch.num_rows
                yield batch
        except (FileSchemaError, ObjectNotFoundError, ValueError, pa.ArrowException):
            return shown
        return None

    def _note(self, num_rows: int, task: _FileTask, deleted: DeletedRows | None) -> None:
        """Check the vector against the file's rows, and count those that are certain."""
        gone = 0
        if deleted is not None:
            gone = deleted.count
            if deleted.last >= num_rows:
                reason = f"it lists row {deleted.last}, but the file has {num_rows} rows"
                raise DeletionVectorError(self._table, task.shown_path, reason)
        with self._lock:
            self._certain += num_rows - gone

    def _rows(
        self, file: DataFile, task: _FileTask, deleted: DeletedRows | None
    ) -> Iterator[pa.RecordBatch]:
        fit = self.shape.fit(file.schema, file.calendar)
        groups = matching_row_groups(file.metadata, self._rule, fit.leaves, task.constants)
        batch_rows = self._options.batch_rows
        if self._scan.limit is not None:
            batch_rows = min(batch_rows, max(self._scan.limit, _LEAST_BATCH))

        def wanted(rows: Rows) -> pa.BooleanArray | None:
            keep = fit.matches(rows, task)
            alive = None if deleted is None else deleted.kept(rows.start, rows.length)
            if alive is None or keep is None:
                return keep if alive is None else alive
            return pc.and_kleene(alive, keep)

        views = self._takes_views and fit.takes_views
        chosen: Iterator[tuple[Rows, pa.BooleanArray | None]]
        if self._takes_all(deleted, views=views):
            kept = None if deleted is None else deleted.kept
            chosen = selected_rows(
                file, fit.columns, groups, batch_rows=batch_rows, kept=kept, views=views
            )
        elif self._looks_first and self._probe.is_worth_it(file, fit, groups):
            parts = self._parts(file, fit, fit.filter_columns, groups, task)
            chosen = self._probe.rows(file, fit, parts, wanted, batch_rows=batch_rows)
        else:
            every = self._every(file, fit, groups, task, batch_rows)
            chosen = ((rows, wanted(rows)) for rows in every)
        for rows, keep in chosen:
            batch = fit.batch(rows, task, keep, views=views)
            if batch is not None:
                yield batch

    def _takes_all(self, deleted: DeletedRows | None, *, views: bool) -> bool:
        """Whether all rows of a file come but for deleted ones, and nobody asks for their places.

        A limit is another matter: to look at all pages first, as the compiled decoder does, takes
        longer than a few rows.
        """
        if self._residual is not None or (deleted is not None and self.shape.tracks_rows):
            return False
        return views or self._scan.limit is None

    def _every(
        self,
        file: DataFile,
        fit: FileProjection,
        groups: Sequence[int],
        task: _FileTask,
        batch_rows: int,
    ) -> Iterator[Rows]:
        """Yield all columns of the rows that may match."""
        parts = []
        if self._rule is not None and fit.columns:
            parts = list(self._parts(file, fit, fit.columns, groups, task))
        may_match = sum(end - start for _, spans in parts for start, end in spans)
        if not parts or may_match == sum(file.metadata.row_group(at).num_rows for at in groups):
            if self._residual is None and self._scan.limit is not None:
                yield from file.rows(fit.columns, groups, batch_rows=batch_rows)
                return
            for rows, _ in selected_rows(file, fit.columns, groups, batch_rows=batch_rows):
                yield rows
            return
        for group, spans in parts:
            yield from file.rows_within(fit.columns, group, spans, batch_rows=batch_rows)

    def _parts(
        self, file: DataFile, fit: FileProjection, columns: Sequence[str],
        groups: Sequence[int], task: _FileTask,
    ) -> Iterator[tuple[int, Sequence[tuple[int, int]]]]:  # fmt: skip
        """Yield row groups, and which of their rows may match by what is known of their pages."""
        for group in groups:
            yield group, file.spans(columns, group, self._rule, fit.leaves, task.constants)


def _behind(batches: Iterator[pa.RecordBatch], shown: int) -> Iterator[pa.RecordBatch]:
    """Yield rows but for the first ones, which were shown already."""
    for batch in batches:
        if shown < batch.num_rows:
            yield batch.slice(shown) if shown else batch
        shown = max(shown - batch.num_rows, 0)
