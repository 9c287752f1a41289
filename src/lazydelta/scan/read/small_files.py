"""Files that are alike: what it takes to read them is found out once.

What it takes to open, ask for and hand over one file is many times what a few hundred rows take.
So neighbours in the plan are read together, if they are small, without deleted rows and of the
same partition. The compiled decoder reads those whose columns are the same as in a file that was
read before, up to the first that it cannot; that one is read by itself, which is also what says
what is wrong with it. Larger ones are opened by the decoder alone, if they are like one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from lazydelta.parquet import Rows, chosen_template_rows, has_native_decoder
from lazydelta.scan.read.row_projection import FileFacts
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.formats import DeletedRows
    from lazydelta.parquet import DataFile, FileTemplate, TemplateFile
    from lazydelta.scan.read.row_projection import FileProjection, RowProjection
    from lazydelta.store import Store

__all__ = ["SmallFileReader"]

_SMALL = 128 << 10
"""Files up to this size are read with others: a larger one keeps a thread busy by itself."""
_MOST_BYTES = 1 << 20
_MOST_FILES = 64
"""Of a group: it is read as a whole before its first row comes."""
_PATIENCE = 4
"""Larger files that are unlike the last, without one that is like it, before none is tried."""


class SmallFile(FileFacts, Protocol):
    """What the log says of a file, as far as it matters here."""

    @property
    def size(self) -> int | None:
        """Its size in bytes."""

    @property
    def has_vector(self) -> bool:
        """Whether rows of it are deleted."""


File = TypeVar("File", bound=SmallFile)


class _Pattern(NamedTuple):
    """How files that are alike become rows."""

    alike: FileTemplate
    fit: FileProjection
    views: bool

    def shown(self, columns: pa.RecordBatch, file: FileFacts) -> pa.RecordBatch | None:
        """Return those rows that match, as the table has them; None if there are none."""
        if not columns.num_rows:
            return None
        rows = Rows(0, columns.num_rows, columns)
        return self.fit.batch(rows, file, self.fit.matches(rows, file), views=self.views)


class LikeFile(NamedTuple):
    """A file that is like one that was read before, whatever its size."""

    opened: TemplateFile
    pattern: _Pattern

    @property
    def num_rows(self) -> int:
        """How many rows it has, deleted ones included."""
        return self.opened.num_rows

    def batches(
        self, file: FileFacts, deleted: DeletedRows | None, *, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield its rows.

        Args:
            file: What the log says of it.
            deleted: Which rows are left out.
            batch_rows: Most rows at a time; fewer where rows are large.

        Raises:
            ArrowException, ValueError, FileSchemaError: They cannot be read like those of others.
        """
        kept = None if deleted is None else deleted.kept
        alike = self.pattern.alike
        for columns in chosen_template_rows(self.opened, batch_rows=batch_rows, kept=kept):
            batch = columns if alike.are_renamed else self.pattern.shown(columns, file)
            if batch is not None and batch.num_rows:
                yield batch


class SmallFileReader:
    """Decides which files are read together, and reads them. Shared by the threads of a read."""

    def __init__(self, shape: RowProjection, *, is_possible: bool) -> None:
        self._shape = shape
        self._is_possible = is_possible
        self._pattern: _Pattern | None = None
        self._most_files = 1
        self._patience = _PATIENCE

    @classmethod
    def build(cls, shape: RowProjection, store: Store, *, has_limit: bool) -> SmallFileReader:
        """Return what groups the files of a read.

        Args:
            shape: Its columns: what tells files apart, or rows, needs them one by one.
            store: Where the table is.
            has_limit: Whether a few rows may do, for which no file is read too many.
        """
        tells_apart = shape.tracks_rows or shape.file_column is not None
        possible = not has_limit and not tells_apart and is_local(store) and has_native_decoder()
        return cls(shape, is_possible=possible)

    @property
    def tries_each(self) -> bool:
        """Whether files that are not read with others may be like one before, by what was seen."""
        return self._is_possible and self._patience > 0

    def grouped(self, files: Iterable[File]) -> Iterator[Sequence[File]]:
        """Yield files in their order, those that may be read together in groups.

        Groups grow: the first rows come as early as ever, and a few files are shared out among
        all threads.
        """
        group: list[File] = []
        size = 0
        for file in files:
            if group and not self._joins(file, group, size):
                yield group
                group, size = [], 0
            group.append(file)
            size += file.size or 0
        if group:
            yield group

    def _joins(self, file: File, group: Sequence[File], size: int) -> bool:
        if not self._is_possible or file.size is None or not _is_small(file):
            return False
        if len(group) >= self._most_files or size + file.size > _MOST_BYTES:
            self._most_files = min(2 * self._most_files, _MOST_FILES)
            return False
        return _is_small(group[0]) and file.constants == group[0].constants

    def read(
        self, paths: Sequence[str | None], file: SmallFile
    ) -> tuple[pa.RecordBatch | None, int]:
        """Return the rows of the first of some files, and how many files it was.

        Args:
            paths: On this machine; None if it is not.
            file: One of them, for what they have in common.
        """
        local = [path for path in paths if path is not None]
        if self._pattern is None or len(local) < len(paths):
            return None, 0
        pattern = self._pattern
        columns, count = pattern.alike.read(local)
        return None if columns is None else pattern.shown(columns, file), count

    def open(self, path: str | None) -> LikeFile | None:
        """Return a file that is like the last that was seen; None if it has to be read by itself.

        Args:
            path: On this machine; None if it is not.
        """
        pattern = self._pattern
        if pattern is None or path is None:
            return None
        opened = pattern.alike.open(path)
        self._patience = self._patience - 1 if opened is None else _PATIENCE
        return None if opened is None else LikeFile(opened, pattern)

    def learn(self, file: DataFile, *, views: bool) -> None:
        """See in a file how others like it are read, if the last one that was seen is unlike it.

        Args:
            file: Of a group.
            views: Whether texts and bytes may come as views.
        """
        if not self._is_possible:
            return
        fit = self._shape.fit(file.schema, file.calendar)
        shown = views and fit.takes_views
        alike = file.template(fit.columns, views=shown, shown=fit.renamed(views=shown))
        self._pattern = None if alike is None else _Pattern(alike, fit, shown)
        self._is_possible = alike is not None


def _is_small(file: SmallFile) -> bool:
    return file.size is not None and file.size <= _SMALL and not file.has_vector
