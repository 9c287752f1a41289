"""The stores of a table's files: its own, and those of allowed roots outside it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lazydelta.errors import ObjectNotFoundError, TransientStoreError
from lazydelta.store import Store, open_store
from lazydelta.store.layers import retried_store

if TYPE_CHECKING:
    from lazydelta.config import Config
    from lazydelta.protocol.paths import Location

__all__ = ["FileStores"]


class FileStores:
    """Opens each root once.

    A root outside the table gets the storage options that `Config.allowed_roots` has for it, else
    the credentials of the table if it is in the same account or bucket, else the environment's.

    The log names every object that is read here. A remote store may answer 404 for one that was
    just written, so a missing object is retried with backoff before it counts as missing.

    Args:
        own: The table's store; it retries transient errors itself.
        config: How often and how fast to retry.
    """

    def __init__(self, own: Store, config: Config) -> None:
        self._config = config
        self._own = own
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
        roots = self._config.allowed_roots
        options = roots[root] if isinstance(roots, Mapping) else {}
        store = open_store(root, options, like=None if options else self._own)
        return retried_store(store, self._config, (ObjectNotFoundError, TransientStoreError))
