"""Conformance suites and builders for implementers of stores and readers."""

from __future__ import annotations

from lazydelta.testing.fault_proxy import (
    FaultProxy,
    ProxyFault,
    ProxyRequest,
    ProxySummary,
    dependency_depth,
)
from lazydelta.testing.faulty_store import Fault, FaultyStore, RandomFaults
from lazydelta.testing.log_actions import add, deletion_vector, remove
from lazydelta.testing.store_contract import StoreContract
from lazydelta.testing.table_builder import TableBuilder

__all__ = [
    "Fault",
    "FaultProxy",
    "FaultyStore",
    "ProxyFault",
    "ProxyRequest",
    "ProxySummary",
    "RandomFaults",
    "StoreContract",
    "TableBuilder",
    "add",
    "deletion_vector",
    "dependency_depth",
    "remove",
]
