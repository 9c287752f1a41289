"""The layers over a store: retries, request counts, cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.store import tuning
from lazydelta.store.interface import is_local
from lazydelta.store.layers.caching_store import CachingStore
from lazydelta.store.layers.disk_cache import DiskCache
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.store.layers.retrying_store import retried_store

if TYPE_CHECKING:
    from collections.abc import Collection

    from lazydelta.config import Config
    from lazydelta.store.interface import Store

__all__ = ["cached_store"]


def cached_store(
    store: Store, config: Config, *, directory: str, mutable: Collection[str], unique: str
) -> Store:
    """Return a store that retries, counts its requests and caches the objects of a directory.

    A local store is only counted, and only for an observer.

    Args:
        store: The store.
        config: Retries, observer and size of the cache.
        directory: The directory with immutable objects.
        mutable: Paths of the objects in it that may change.
        unique: Directory whose names are never used again.
    """
    if is_local(store):
        return store if config.observer is None else MeteredStore(store, config.observer)
    metered = MeteredStore(retried_store(store, config), config.observer)
    disk = None
    if config.cache_directory is not None:
        disk = DiskCache(config.cache_directory, config.cache_bytes)
    return CachingStore(
        metered,
        directory=directory,
        mutable=mutable,
        unique=unique,
        memory_limit=tuning.CACHE_BYTES,
        disk=disk,
    )
