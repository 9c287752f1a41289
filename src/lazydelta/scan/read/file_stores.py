"""The stores that files of one table lie in: its own, and those of allowed roots outside it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lazydelta.store import Store, open_store

if TYPE_CHECKING:
    from lazydelta.protocol import Location

__all__ = ["FileStores"]


class FileStores:
    """Opens each root once; other roots than the table's never get its credentials."""

    def __init__(self, own: Store) -> None:
        self._stores: dict[str | None, Store] = {None: own}
        self._lock = threading.Lock()

    def store(self, place: Location) -> Store:
        """Return the store that a place lies in."""
        with self._lock:
            found = self._stores.get(place.store_root)
            if found is None:
                assert place.store_root is not None  # noqa: S101 - None is the table's own
                found = self._stores[place.store_root] = open_store(place.store_root)
            return found
