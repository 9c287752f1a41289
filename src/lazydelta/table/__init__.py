"""The public objects: `Table`, `Snapshot`, and `write` for callers that have only an address."""

from __future__ import annotations

from lazydelta.table.converting import convert
from lazydelta.table.public_snapshot import Snapshot
from lazydelta.table.table import Table
from lazydelta.table.writing import write

__all__ = [
    "Snapshot",
    "Table",
    "convert",
    "write",
]
