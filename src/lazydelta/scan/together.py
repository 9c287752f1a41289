"""Small files that are alike, read in one go.

What it takes to open, ask for and hand over one file is many times what a few hundred rows take.
So neighbours in the plan are read together, if they are small, without deleted rows and of the
same partition. The compiled decoder reads those whose columns are the same as in a file that was
read before, up to the first that it cannot; that one is read by itself, which is also what says
what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from lazydelta.files import Rows, has_decoder
from lazydelta.scan.rows import FileFacts
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.files import AlikeFiles, DataFile
    from lazydelta.scan.rows import FileFit, RowShape
    from lazydelta.store import Store

__all__ = ["Together"]

_SMALL = 128 << 10
"""Files up to this size are read with others: a larger one keeps a thread busy by itself."""
_MOST_BYTES = 1 << 20
_MOST_FILES = 64
"""Of a group: it is read as a whole before its first row comes."""


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

    alike: AlikeFiles
    fit: FileFit
    views: bool


class Together:
    """Decides which files are read together, and reads them. Shared by the threads of a read."""

    def __init__(self, shape: RowShape, *, is_possible: bool) -> None:
        self._shape = shape
        self._is_possible = is_possible
        self._pattern: _Pattern | None = None
        self._most_files = 1

    @classmethod
    def build(cls, shape: RowShape, store: Store, *, has_limit: bool) -> Together:
        """Return what groups the files of a read.

        Args:
            shape: Its columns: what tells files apart, or rows, needs them one by one.
            store: Where the table is.
            has_limit: Whether a few rows may do, for which no file is read too many.
        """
        tells_apart = shape.tracks_rows or shape.file_column is not None
        possible = not has_limit and not tells_apart and is_local(store) and has_decoder()
        return cls(shape, is_possible=possible)

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
        alike, fit, views = self._pattern
        columns, count = alike.read(local)
        if columns is None or not columns.num_rows:
            return None, count
        rows = Rows(0, columns.num_rows, columns)
        return fit.batch(rows, file, fit.matches(rows, file), views=views), count

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
        alike = file.alike(fit.columns, views=shown)
        self._pattern = None if alike is None else _Pattern(alike, fit, shown)
        self._is_possible = alike is not None


def _is_small(file: SmallFile) -> bool:
    return file.size is not None and file.size <= _SMALL and not file.has_vector
