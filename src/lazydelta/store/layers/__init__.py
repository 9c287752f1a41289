"""Layers over a store: retries, request counts, a cache of immutable objects."""

from __future__ import annotations

from lazydelta.store.layers.caching_store import prefetch
from lazydelta.store.layers.metered_store import RequestTotals, request_totals
from lazydelta.store.layers.stacking import cached_store, retried_store

__all__ = [
    "RequestTotals",
    "cached_store",
    "prefetch",
    "request_totals",
    "retried_store",
]
