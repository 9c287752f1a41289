"""Small-file batching: adjacent small files of one partition are decoded in one call.

Opening a file costs more than its rows. The files of a batch need the same schema too, which the
file template verifies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from lazydelta.scan import tuning
from lazydelta.scan.read.row_projection import FileInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.scan.read.file_templates import FileTemplates

__all__ = ["SmallFileBatches", "is_small"]


class SmallFile(FileInfo, Protocol):
    """The facts of the log about a file that decide on batches."""

    @property
    def size(self) -> int | None:
        """Its size in bytes."""

    @property
    def has_vector(self) -> bool:
        """Whether it has a deletion vector."""

    @property
    def first_group(self) -> int:
        """The row group to start at."""


File = TypeVar("File", bound=SmallFile)


class SmallFileBatches:
    """Groups files into batches.

    Batches grow: the first rows are returned as early as without batches, and few files are
    distributed among all threads.
    """

    def __init__(self, templates: FileTemplates) -> None:
        self._templates = templates
        self._max_files = 1

    def of(self, files: Iterable[File]) -> Iterator[Sequence[File]]:
        """Yield files in their order, single or in batches."""
        batch: list[File] = []
        size = 0
        for file in files:
            if batch and not self._fits(file, batch, size):
                yield batch
                batch, size = [], 0
            batch.append(file)
            size += file.size or 0
        if batch:
            yield batch

    def _fits(self, file: File, batch: Sequence[File], size: int) -> bool:
        if not self._templates.is_enabled or file.size is None or not is_small(file):
            return False
        if len(batch) >= self._max_files or size + file.size > tuning.SMALL_FILE_BATCH_BYTES:
            self._max_files = min(2 * self._max_files, tuning.SMALL_FILE_BATCH_FILES)
            return False
        return is_small(batch[0]) and file.constants == batch[0].constants


def is_small(file: SmallFile) -> bool:
    """Whether a file may be in a batch."""
    is_whole = not file.has_vector and not file.first_group
    return is_whole and file.size is not None and file.size <= tuning.SMALL_FILE_BYTES
