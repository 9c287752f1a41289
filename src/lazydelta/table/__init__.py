"""The public objects: `Table`, `Snapshot`, and functions for callers that have only an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports
from lazydelta.table.converting import convert
from lazydelta.table.public_snapshot import Snapshot
from lazydelta.table.table import Table
from lazydelta.table.writing import write

if TYPE_CHECKING:
    from lazydelta.table.maintenance_report import MaintenanceReport, StepReport
    from lazydelta.table.policy_file import load_policy
    from lazydelta.table.policy_run import maintain

__all__ = [
    "MaintenanceReport",
    "Snapshot",
    "StepReport",
    "Table",
    "convert",
    "load_policy",
    "maintain",
    "write",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "maintenance_report": ("MaintenanceReport", "StepReport"),
        "policy_file": ("load_policy",),
        "policy_run": ("maintain",),
    },
)
