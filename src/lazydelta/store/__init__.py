"""Object stores: the `Store` protocol and its implementations.

Independent of Delta. The cloud client is imported when a cloud URL is opened.
"""

from __future__ import annotations

from lazydelta.store.caching_store import prefetch
from lazydelta.store.interface import (
    LISTING_SCHEMA,
    Buffer,
    ObjectMeta,
    Store,
    check_writable,
    is_local,
    local_path,
)
from lazydelta.store.layers import cached_store, retried_store
from lazydelta.store.memory_store import MemoryStore
from lazydelta.store.metered_store import RequestTotals, request_totals
from lazydelta.store.ranged_input import RangedInput
from lazydelta.store.schemes import open_store, register_store
from lazydelta.store.uploads import Output, open_output

__all__ = [
    "LISTING_SCHEMA",
    "Buffer",
    "MemoryStore",
    "ObjectMeta",
    "Output",
    "RangedInput",
    "RequestTotals",
    "Store",
    "cached_store",
    "check_writable",
    "is_local",
    "local_path",
    "open_output",
    "open_store",
    "prefetch",
    "register_store",
    "request_totals",
    "retried_store",
]
