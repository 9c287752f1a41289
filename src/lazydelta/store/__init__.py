"""Object stores: the `Store` protocol and its implementations.

Independent of Delta. The cloud client is imported when a cloud URL is opened.
"""

from __future__ import annotations

from lazydelta.store.deadlines import call_deadline
from lazydelta.store.interface import (
    LISTING_SCHEMA,
    Buffer,
    ObjectMeta,
    Store,
    check_writable,
    is_local,
    list_level,
    list_tree,
    lists_from_offsets,
    local_path,
)
from lazydelta.store.memory_store import MemoryStore
from lazydelta.store.ranged_input import RangedInput
from lazydelta.store.schemes import open_store, register_store
from lazydelta.store.uploads import open_output

__all__ = [
    "LISTING_SCHEMA",
    "Buffer",
    "MemoryStore",
    "ObjectMeta",
    "RangedInput",
    "Store",
    "call_deadline",
    "check_writable",
    "is_local",
    "list_level",
    "list_tree",
    "lists_from_offsets",
    "local_path",
    "open_output",
    "open_store",
    "register_store",
]
