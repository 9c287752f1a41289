"""Test suites and builders for those who extend lazydelta, and for its own tests."""

from __future__ import annotations

from lazydelta.testing.checkpoint_writer import CheckpointOptions
from lazydelta.testing.log_actions import add, deletion_vector, remove
from lazydelta.testing.store_contract import StoreContract
from lazydelta.testing.table_builder import TableBuilder

__all__ = [
    "CheckpointOptions",
    "StoreContract",
    "TableBuilder",
    "add",
    "deletion_vector",
    "remove",
]
