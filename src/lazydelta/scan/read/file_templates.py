"""File templates: how to read files with the schema of one that was read before.

Opening a file and matching its columns costs many times what a few hundred rows cost. The native
decoder reads the files that match a template without that. Those that do not, or that are damaged,
are opened, which also reports what is wrong with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lazydelta.parquet import RowBatch, has_native_decoder
from lazydelta.scan import tuning
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lazydelta.formats import DeletedRows
    from lazydelta.parquet import DataFile, FileTemplate, TemplateFile
    from lazydelta.scan.read.chosen_rows import SelectedRows
    from lazydelta.scan.read.row_projection import FileInfo, FileProjection, RowProjection
    from lazydelta.store import Store

__all__ = ["FileTemplates", "ProjectedFile"]


class _Template(NamedTuple):
    """A template, and the projection of its rows."""

    files: FileTemplate
    projection: FileProjection
    views: bool

    def project(self, columns: pa.RecordBatch, file: FileInfo) -> pa.RecordBatch | None:
        """Return the matching rows in the output schema; None if there are none."""
        if not columns.num_rows:
            return None
        rows = RowBatch(0, columns.num_rows, columns)
        rows = rows.select(self.projection.matches(rows, file))
        return self.projection.batch(rows, file, views=self.views)


class ProjectedFile(NamedTuple):
    """A file that matches a template."""

    opened: TemplateFile
    template: _Template

    @property
    def num_rows(self) -> int:
        """The number of rows, including deleted ones."""
        return self.opened.num_rows

    def batches(
        self, file: FileInfo, deleted: DeletedRows | SelectedRows | None, *, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield its rows in the output schema, without the deleted ones.

        Raises:
            ArrowException, ValueError: It is damaged. Rows may have been returned before.
        """
        template, keep = self.template, None if deleted is None else deleted.kept
        has_output_schema = template.files.has_output_schema
        for columns in self.opened.batches(batch_rows, keep):
            batch = columns if has_output_schema else template.project(columns, file)
            if batch is not None and batch.num_rows:
                yield batch


class FileTemplates:
    """The template of the last file that was opened. Shared by the threads of a read."""

    def __init__(self, projection: RowProjection, *, is_enabled: bool) -> None:
        self._projection = projection
        self._template: _Template | None = None
        self._attempts = tuning.TEMPLATE_ATTEMPTS
        self.is_enabled = is_enabled
        """Whether files can be read by a template at all."""

    @classmethod
    def build(cls, projection: RowProjection, store: Store, *, has_limit: bool) -> FileTemplates:
        """Return the templates of a read.

        Args:
            projection: The columns; those that differ between files or rows need single files.
            store: The store of the table.
            has_limit: Whether a few rows may be enough, for which files are not read in batches.
        """
        per_file = projection.needs_positions or projection.file_column is not None
        is_enabled = not has_limit and not per_file and is_local(store) and has_native_decoder()
        return cls(projection, is_enabled=is_enabled)

    @property
    def tries_single_files(self) -> bool:
        """Whether single files are tried; not after several in a row that did not match."""
        return self.is_enabled and self._attempts > 0

    def read(
        self, paths: Sequence[str | None], file: FileInfo
    ) -> tuple[pa.RecordBatch | None, int]:
        """Return the rows of the first of some small files, and the number of these files.

        Args:
            paths: Local paths; None for a file that is not local.
            file: One of them, for the partition values that they share.
        """
        template = self._template
        local = [path for path in paths if path is not None]
        if template is None or len(local) < len(paths):
            return None, 0
        columns, count = template.files.read(local)
        return None if columns is None else template.project(columns, file), count

    def open(self, path: str | None) -> ProjectedFile | None:
        """Return a file that matches the template; None if it has to be opened.

        Args:
            path: Its local path; None if it is not local.
        """
        template = self._template
        if template is None or path is None:
            return None
        opened = template.files.open(path)
        self._attempts = tuning.TEMPLATE_ATTEMPTS if opened is not None else self._attempts - 1
        return None if opened is None else ProjectedFile(opened, template)

    def learn(self, file: DataFile, *, views: bool) -> None:
        """Make the template of an opened file.

        Args:
            file: Read without an error.
            views: Whether strings and binaries may be returned as views.
        """
        if not self.is_enabled:
            return
        projection = self._projection.for_file(file.schema, file.calendar)
        views = views and projection.takes_views
        output_schema = projection.output_schema(views=views)
        files = file.template(projection.columns, views=views, output_schema=output_schema)
        self._template = None if files is None else _Template(files, projection, views)
        self.is_enabled = files is not None
