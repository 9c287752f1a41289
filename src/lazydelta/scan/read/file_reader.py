"""File tasks -> rows: choose the read path of a file, read it, and project its rows."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lazydelta.errors import (
    DataFileNotFoundError,
    DeletionVectorError,
    ObjectNotFoundError,
)
from lazydelta.formats import BadVariantError
from lazydelta.parquet import DataFile, matching_row_groups, read_with_fallback
from lazydelta.scan.read.chosen_rows import ChosenVectors, SelectedRows
from lazydelta.scan.read.file_read import (
    FileRead,
    filtered_rows,
    limited_rows,
    selected_rows,
    whole_file_rows,
)
from lazydelta.scan.read.late_materialization import LateMaterialization
from lazydelta.scan.read.read_path import ReadPath, choose_read_path, choose_unopened_path
from lazydelta.scan.read.small_files import is_small
from lazydelta.scan.read.transform import FileSchemaError, data_file_error
from lazydelta.store import local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.config import ReadOptions
    from lazydelta.expressions import Predicate
    from lazydelta.formats import DeletedRows
    from lazydelta.parquet import RowBatch
    from lazydelta.protocol.paths import Location
    from lazydelta.scan.read.file_stores import FileStores
    from lazydelta.scan.read.file_tasks import FileTask
    from lazydelta.scan.read.file_templates import FileTemplates
    from lazydelta.scan.read.read_path import ReadRequest
    from lazydelta.scan.read.row_limit import RowLimit
    from lazydelta.scan.read.row_projection import RowProjection
    from lazydelta.snapshot import SnapshotState

__all__ = ["FileBatch", "FileReader"]

_TEMPLATE_ERRORS = (FileSchemaError, ObjectNotFoundError, ValueError, pa.ArrowException)
"""Errors after which a file is opened, which reads it or reports what is wrong."""


class FileBatch(NamedTuple):
    """Rows of a file, or of a small-file batch."""

    rows: pa.RecordBatch
    file: FileTask
    """The file, or the first one of the small-file batch."""
    row_group: int = 0
    """A row group that they are in, if all rows before it were returned; else one before it."""


class FileReader:
    """Reads the files of one read. Shared by its threads.

    Args:
        snapshot: The table.
        options: Options of the read.
        request: What the read needs of every file.
        projection: Its columns.
        rule: The predicate over statistics; None skips nothing.
        templates: File templates.
        stores: Stores of the files.
        limit: Receives the rows of each file that are not deleted.
        num_files: Returns the number of files that were started.
        uses_threads: Whether pyarrow decodes the columns of the next file in parallel.
    """

    def __init__(
        self,
        snapshot: SnapshotState,
        options: ReadOptions,
        *,
        request: ReadRequest,
        projection: RowProjection,
        rule: Predicate | None,
        templates: FileTemplates,
        stores: FileStores,
        limit: RowLimit,
        num_files: Callable[[], int],
        uses_threads: Callable[[], bool],
    ) -> None:
        self._snapshot = snapshot
        self._options = options
        self._request = request
        self._projection = projection
        self._rule = rule
        self._templates = templates
        self._stores = stores
        self._num_files = num_files
        self._uses_threads = uses_threads
        self._late = LateMaterialization()
        selects_rows = request.has_filter or request.has_limit
        self._reads_whole_files = projection.has_all_columns and not selects_rows
        self._limit = limit

    def read(self, tasks: Sequence[FileTask]) -> Iterator[FileBatch]:
        """Yield the rows of a file, or of a small-file batch."""
        path = self._unopened_path(tasks)
        if path is not ReadPath.SMALL_FILES:
            yield from self._read_file(tasks[0], path, is_example=False)
            return
        max_rows = self._options.batch_rows
        while tasks:
            batch, count = self._read_small_files(tasks)
            if batch is not None:
                yield from (
                    FileBatch(batch[row : row + max_rows], tasks[0])
                    for row in range(0, batch.num_rows, max_rows)
                )
            if count < len(tasks):  # does not match the template: the next ones may match this file
                path = self._unopened_path(tasks[count : count + 1])
                yield from self._read_file(tasks[count], path, is_example=True)
            tasks = tasks[count + 1 :]

    def _unopened_path(self, tasks: Sequence[FileTask]) -> ReadPath | None:
        # Rows that a template returns have no positions, so a large file could not be resumed.
        is_positioned = self._request.is_resumable and not is_small(tasks[0])
        has_template = self._templates.tries_single_files and not is_positioned
        return choose_unopened_path(self._request, len(tasks), has_template=has_template)

    def _read_small_files(self, tasks: Sequence[FileTask]) -> tuple[pa.RecordBatch | None, int]:
        """Return the rows of the first files of a batch, and their number."""
        locations = [self._snapshot.resolver.to_open(task.path) for task in tasks]
        try:
            return self._templates.read(
                [self._local_path(location) for location in locations], tasks[0]
            )
        except (FileSchemaError, ObjectNotFoundError, pa.ArrowException):
            return None, 0

    def _read_file(
        self, task: FileTask, path: ReadPath | None, *, is_example: bool
    ) -> Iterator[FileBatch]:
        """Return the rows of one file.

        Args:
            task: The file.
            path: `TEMPLATE` tries the template first; None opens the file.
            is_example: Whether to make a template of it.
        """
        location = self._snapshot.resolver.to_open(task.path)
        take = partial(task.vectors.take, task.vector_index)
        if path is not ReadPath.TEMPLATE or isinstance(task.vectors, ChosenVectors):
            return self._read_opened(task, location, take, is_example=is_example)
        deleted = take()
        rows = read_with_fallback(
            self._read_by_template(task, location, deleted),
            lambda: (
                part.rows
                for part in self._read_opened(task, location, lambda: deleted, is_example=True)
            ),
            _TEMPLATE_ERRORS,
        )
        return (FileBatch(batch, task) for batch in rows)

    def _read_by_template(
        self, task: FileTask, location: Location, deleted: DeletedRows | SelectedRows | None
    ) -> Iterator[pa.RecordBatch] | None:
        try:
            file = self._templates.open(self._local_path(location))
        except _TEMPLATE_ERRORS:
            return None
        if file is None:
            return None
        self._count_rows(file.num_rows, task, deleted)
        return file.batches(task, deleted, batch_rows=self._options.batch_rows)

    def _read_opened(
        self,
        task: FileTask,
        location: Location,
        take: Callable[[], DeletedRows | SelectedRows | None],
        *,
        is_example: bool,
    ) -> Iterator[FileBatch]:
        table = self._snapshot.store.root
        task.vectors.request(task.vector_index)
        try:
            file = DataFile(
                self._stores.store(location), location.path, task.size,
                modified=task.modified,
                whole=self._reads_whole_files and not task.first_group,
                max_decoded_bytes=self._options.max_inflated_bytes,
                rebase_mode=self._options.datetime_rebase_mode,
                threads=self._uses_threads(),
            )  # fmt: skip
        except ObjectNotFoundError:
            version = self._snapshot.version
            raise DataFileNotFoundError(table, task.shown_path, version) from None
        with closing(file):
            deleted = take()
            before = _rows_before(file, task.first_group)
            self._count_rows(file.num_rows, task, deleted, before=before)
            try:
                yield from self._rows(file, task, deleted)
                if is_example:
                    self._templates.learn(file, views=self._request.views)
            except (FileSchemaError, BadVariantError, pa.ArrowException) as error:
                raise data_file_error(table, task.shown_path, error) from error

    def _rows(
        self, file: DataFile, task: FileTask, deleted: DeletedRows | SelectedRows | None
    ) -> Iterator[FileBatch]:
        projection = self._projection.for_file(file.schema, file.calendar)
        groups = matching_row_groups(file.metadata, self._rule, projection.leaves, task.constants)
        groups = [group for group in groups if group >= task.first_group]
        views = self._request.views and projection.takes_views
        path = choose_read_path(
            self._request,
            has_deleted_rows=deleted is not None,
            views=views,
            late_pays=self._request.pushes_down
            and self._late.pays(file, projection, groups, num_files=self._num_files()),
        )
        read = FileRead(
            file, task, projection, groups, self._rule, deleted, self._request.batch_rows
        )
        returned, row_group, end = 0, task.first_group, 0
        starts = [file.first_row(group) for group in groups] if self._request.is_resumable else []
        if isinstance(deleted, SelectedRows) and not self._request.has_filter:
            positions = self._request.needs_positions
            batches = selected_rows(read, deleted, needs_positions=positions)
        else:
            batches = self._selected_rows(path, read, views=views)
        for rows in batches:
            batch = projection.batch(rows, task, views=views)
            number = bisect_right(starts, rows.start) - 1
            if number >= 0 and starts[number] >= end:
                row_group = groups[number]
            end = rows.end
            if batch is not None:
                yield FileBatch(batch, task, row_group)
                returned += batch.num_rows
                if self._limit.is_met_by(returned):  # no row group is read ahead of the consumer
                    return

    def _selected_rows(self, path: ReadPath, read: FileRead, *, views: bool) -> Iterator[RowBatch]:
        match path:
            case ReadPath.WHOLE_FILE:
                return whole_file_rows(read, views=views)
            case ReadPath.LIMITED:
                return limited_rows(read)
            case ReadPath.LATE_MATERIALIZATION:
                ranges = read.row_ranges(read.projection.filter_columns)
                return self._late.rows(
                    read.file, read.projection, ranges, read.mask, batch_rows=read.batch_rows
                )
            case _:
                return filtered_rows(read)

    def _count_rows(
        self,
        num_rows: int,
        task: FileTask,
        deleted: DeletedRows | SelectedRows | None,
        *,
        before: int = 0,
    ) -> None:
        """Validate the deletion vector against the rows of the file, and count the others.

        Args:
            num_rows: The rows of the file.
            task: The file.
            deleted: Its deletion vector.
            before: The rows before the row group to start at, which do not count.
        """
        if deleted is not None:
            if deleted.last >= num_rows:
                reason = f"it lists row {deleted.last}, but the file has {num_rows} rows"
                raise DeletionVectorError(self._snapshot.store.root, task.shown_path, reason)
            num_rows -= deleted.count
        self._limit.count(max(0, num_rows - before))

    def _local_path(self, location: Location) -> str | None:
        return local_path(self._stores.store(location), location.path)


def _rows_before(file: DataFile, row_group: int) -> int:
    """Return the rows before a row group; all of them if the file has fewer row groups."""
    if not row_group:
        return 0
    exists = row_group < file.metadata.num_row_groups
    return file.first_row(row_group) if exists else file.num_rows
