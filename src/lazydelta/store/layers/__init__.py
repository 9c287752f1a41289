"""Layers over a store: retries, request counts, a cache of immutable objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.store.layers.caching_store import disk_cache_of, prefetch, read_cached
    from lazydelta.store.layers.disk_cache import DiskCache
    from lazydelta.store.layers.metered_store import RequestTotals, request_totals
    from lazydelta.store.layers.retrying_store import retried_store
    from lazydelta.store.layers.stacking import cached_store

__all__ = [
    "DiskCache",
    "RequestTotals",
    "cached_store",
    "disk_cache_of",
    "prefetch",
    "read_cached",
    "request_totals",
    "retried_store",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "caching_store": ("disk_cache_of", "prefetch", "read_cached"),
        "disk_cache": ("DiskCache",),
        "metered_store": ("RequestTotals", "request_totals"),
        "retrying_store": ("retried_store",),
        "stacking": ("cached_store",),
    },
)
