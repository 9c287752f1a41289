"""Write deletion vectors, several to a `.bin` file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta._failpoints import failpoint
from lazydelta.formats import DeletionVectorFile
from lazydelta.writer import tuning

if TYPE_CHECKING:
    from lazydelta.store import Store

__all__ = ["DeletionVectorWriter"]


class DeletionVectorWriter:
    """Packs deletion vectors into files of about `tuning.VECTOR_FILE_BYTES`.

    A descriptor is valid once `finish` has returned.

    Args:
        store: The table's store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file = DeletionVectorFile()
        self._is_empty = True
        self.paths: list[str] = []
        """Paths of the files written so far."""

    def add(self, bitmap: Any) -> dict[str, Any]:
        """Write a 64-bit bitmap, and return the `deletionVector` field of its add action."""
        descriptor = self._file.add(bitmap)
        self._is_empty = False
        if self._file.size >= tuning.VECTOR_FILE_BYTES:
            self.finish()
        return descriptor

    def finish(self) -> None:
        """Write the last file."""
        if self._is_empty:
            return
        file, self._file, self._is_empty = self._file, DeletionVectorFile(), True
        self.paths.append(file.path)
        failpoint("vector-file-prepared")
        self._store.write(file.path, file.to_bytes(), overwrite=False)
        failpoint("vector-file-written")
