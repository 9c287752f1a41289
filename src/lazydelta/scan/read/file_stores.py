"""The stores of a table's files: its own, and those of allowed roots outside it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lazydelta.errors import ObjectNotFoundError, TransientStoreError
from lazydelta.store import Store, open_store
from lazydelta.store.layers import retried_store

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
        self._config = config
        own = retried_store(own, config, (ObjectNotFoundError,))
        self._stores: dict[str | None, Store] = {None: own}
        self._lock = threading.Lock()

    def store(self, location: Location) -> Store:
        """Return the store of a location."""
        with self._lock:
            store = self._stores.get(location.store_root)
            if store is None:
                assert location.store_root is not None  # noqa: S101 - None is the table's own
                store = self._stores[location.store_root] = self._open(location.store_root)
            return store

    def _open(self, root: str) -> Store:
        errors = (ObjectNotFoundError, TransientStoreError)
        return retried_store(open_store(root), self._config, errors)
