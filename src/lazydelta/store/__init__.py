"""Object stores: the `Store` protocol and its implementations.

Independent of Delta. The cloud client is imported when a cloud URL is opened.
"""

from __future__ import annotations

from lazydelta.store.interface import (
    LISTING_SCHEMA,
    Buffer,
    ObjectMeta,
    Store,
    check_writable,
    is_local,
    local_path,
)
from lazydelta.store.local_store import LocalStore
from lazydelta.store.memory_store import MemoryStore
from lazydelta.store.metered_store import MeteredStore
from lazydelta.store.os_errors import from_os_error
from lazydelta.store.retrying_store import RetryingStore
from lazydelta.store.schemes import open_store, register_store
from lazydelta.store.uploads import Output, open_output

__all__ = [
    "LISTING_SCHEMA",
    "Buffer",
    "LocalStore",
    "MemoryStore",
    "MeteredStore",
    "ObjectMeta",
    "Output",
    "RetryingStore",
    "Store",
    "check_writable",
    "from_os_error",
    "is_local",
    "local_path",
    "open_output",
    "open_store",
    "register_store",
]
