"""Maintenance of tables: VACUUM, RESTORE, repair and health; one module a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.operations.maintenance.health import HealthReport, table_health
    from lazydelta.operations.maintenance.repair import RepairResult, repair_table
    from lazydelta.operations.maintenance.request import Maintained
    from lazydelta.operations.maintenance.restore import (
        RestoreRequest,
        RestoreResult,
        restore_table,
    )
    from lazydelta.operations.maintenance.vacuum import (
        VacuumMode,
        VacuumRequest,
        VacuumResult,
        vacuum_table,
    )
    from lazydelta.operations.maintenance.verdicts import SEVERITIES, Finding

__all__ = [
    "SEVERITIES",
    "Finding",
    "HealthReport",
    "Maintained",
    "RepairResult",
    "RestoreRequest",
    "RestoreResult",
    "VacuumMode",
    "VacuumRequest",
    "VacuumResult",
    "repair_table",
    "restore_table",
    "table_health",
    "vacuum_table",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "health": ("HealthReport", "table_health"),
        "repair": ("RepairResult", "repair_table"),
        "request": ("Maintained",),
        "restore": ("RestoreRequest", "RestoreResult", "restore_table"),
        "vacuum": ("VacuumMode", "VacuumRequest", "VacuumResult", "vacuum_table"),
        "verdicts": ("SEVERITIES", "Finding"),
    },
)
