"""OPTIMIZE, REORG, VACUUM and RESTORE on Spark: executors do the work, the driver commits."""

from __future__ import annotations

from lazydelta.spark.maintenance.optimize import optimize, purge
from lazydelta.spark.maintenance.restore import restore
from lazydelta.spark.maintenance.vacuum import vacuum

__all__ = ["optimize", "purge", "restore", "vacuum"]
