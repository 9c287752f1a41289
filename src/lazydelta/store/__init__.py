"""Where tables live: one `Store` protocol, and the stores that fulfil it.

Knows bytes, names and times of objects; nothing of Delta. Cloud clients are imported when a
cloud URL is opened, not before.
"""

from __future__ import annotations

from lazydelta.store.base import (
    LISTING,
    Buffer,
    ObjectMeta,
    Store,
    check_writable,
    is_local,
    local_path,
)
from lazydelta.store.local import LocalStore
from lazydelta.store.memory import MemoryStore
from lazydelta.store.metered import MeteredStore
from lazydelta.store.os_errors import from_os_error
from lazydelta.store.retry import RetryingStore
from lazydelta.store.schemes import StoreFactory, open_store, register_store
from lazydelta.store.uploads import Output, open_output

__all__ = [
    "LISTING",
    "Buffer",
    "LocalStore",
    "MemoryStore",
    "MeteredStore",
    "ObjectMeta",
    "Output",
    "RetryingStore",
    "Store",
    "StoreFactory",
    "check_writable",
    "from_os_error",
    "is_local",
    "local_path",
    "open_output",
    "open_store",
    "register_store",
]
