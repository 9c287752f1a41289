"""Test suites and builders for those who extend lazydelta, and for its own tests."""

from __future__ import annotations

from lazydelta.testing.checkpoint_builder import CheckpointOptions
from lazydelta.testing.faulty_store import Fault, FaultyStore, RandomFaults
from lazydelta.testing.log_actions import add, deletion_vector, remove
from lazydelta.testing.store_contract import StoreContract
from lazydelta.testing.table_builder import TableBuilder

__all__ = [
    "CheckpointOptions",
    "Fault",
    "FaultyStore",
    "RandomFaults",
    "StoreContract",
    "TableBuilder",
    "add",
    "deletion_vector",
    "remove",
]
