"""Whether the files of add actions exist and can be opened, by requests for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lazydelta._arrow import from_mask
from lazydelta._parallel import ordered_map
from lazydelta.errors import DataFileError, ObjectNotFoundError, SchemaError
from lazydelta.formats import DeletionVectorGroup
from lazydelta.operations.maintenance import tuning
from lazydelta.parquet import DataFile
from lazydelta.scan.read import FileStores
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import pyarrow as pa

    from lazydelta.protocol.paths import Location
    from lazydelta.snapshot import SnapshotState

__all__ = ["FilePresence"]


class FilePresence:
    """Finds out which files of a table's log exist; deletion vector files count as part of them.

    Args:
        snapshot: A version of the table.
        open_files: Whether files are opened too, to find those that are not Parquet or damaged.
    """

    def __init__(self, snapshot: SnapshotState, *, open_files: bool = False) -> None:
        self._snapshot = snapshot
        self._open_files = open_files
        self._stores = FileStores(snapshot.store, snapshot.config)
        self._width = 1 if is_local(snapshot.store) else tuning.DELETE_THREADS
        self._vectors: dict[Location, bool] = {}

    def split(self, files: pa.Table) -> tuple[pa.Table, pa.Table, list[str]]:
        """Return the files that exist, those that do not, and why for each of these.

        Args:
            files: Add actions with `path` and `deletionVector`.
        """
        rows = zip(
            files.column("path").to_pylist(),
            files.column("deletionVector").to_pylist(),
            strict=True,
        )
        reasons = list(ordered_map(self._missing, rows, width=self._width))
        exists = from_mask(np.array([reason is None for reason in reasons], np.bool_))
        absent = from_mask(np.array([reason is not None for reason in reasons], np.bool_))
        named = [reason for reason in reasons if reason is not None]
        return files.filter(exists), files.filter(absent), named

    def _missing(self, file: tuple[str, Mapping[str, Any] | None]) -> str | None:
        """Return which part of a file is missing or damaged; None if none is."""
        path, vector = file
        resolver = self._snapshot.resolver
        location = resolver.to_open(path)
        if not self._exists(location):
            return path
        if self._open_files and (reason := self._damage(location)) is not None:
            return f"{path} ({reason})"
        place = None
        if vector is not None and vector["storageType"] == "u":
            name = DeletionVectorGroup.file_name(vector["pathOrInlineDv"])
            place = resolver.to_open(name, decoded=True)
        elif vector is not None and vector["storageType"] == "p":
            place = resolver.to_open(vector["pathOrInlineDv"])
        if place is None or self._vector_exists(place):
            return None
        return f"{path} (its deletion vector {place.path})"

    def _damage(self, place: Location) -> str | None:
        """Return why a file cannot be read; None if its footer is valid."""
        limit = self._snapshot.config.read.max_inflated_bytes
        try:
            DataFile(self._stores.store(place), place.path, max_decoded_bytes=limit).close()
        except (DataFileError, SchemaError) as error:
            return str(error)
        return None

    def _vector_exists(self, place: Location) -> bool:
        """Whether a vector file exists; many files share one, which is requested about once."""
        if place not in self._vectors:
            self._vectors[place] = self._exists(place)
        return self._vectors[place]

    def _exists(self, place: Location) -> bool:
        own = place.store_root is None
        # Not the store that repeats a request for an object that is not there yet: a file of the
        # log that is missing now was deleted.
        store = self._snapshot.store if own else self._stores.store(place)
        try:
            store.head(place.path)
        except ObjectNotFoundError:
            return False
        return True
