"""The stores that files of one table lie in: its own, and those of allowed roots outside it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lazydelta.errors import ObjectNotFoundError, TransientStoreError
from lazydelta.store import RetryingStore, Store, is_local, open_store

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.protocol.paths import Location

__all__ = ["FileStores"]


class FileStores:
    """Opens each root once; other roots than the table's never get its credentials.

    The log names every object that is read here. A remote store may answer 404 for one that was
    just written, so a missing object is retried with backoff before it counts as missing.

    Args:
        own: The table's store; it retries transient errors itself.
        config: How often and how fast to retry.
    """

    def __init__(self, own: Store, config: Config) -> None:
        if not is_local(own):
            own = RetryingStore(own, config, errors=(ObjectNotFoundError,))
        self._config = config
        self._stores: dict[str | None, Store] = {None: own}
        self._lock = threading.Lock()

    def store(self, place: Location) -> Store:
        """Return the store that a place lies in."""
        with self._lock:
            found = self._stores.get(place.store_root)
            if found is None:
                assert place.store_root is not None  # noqa: S101 - None is the table's own
                found = self._stores[place.store_root] = self._opened(place.store_root)
            return found

    def _opened(self, root: str) -> Store:
        store = open_store(root)
        if is_local(store):
            return store
        return RetryingStore(store, self._config, errors=(ObjectNotFoundError, TransientStoreError))
