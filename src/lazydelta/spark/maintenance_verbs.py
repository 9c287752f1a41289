"""OPTIMIZE, REORG, VACUUM and RESTORE for the familiar API and SQL statements.

Executors do the work where this package has their verbs (`spark.maintenance`), else this process.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lazydelta.spark.table_names import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lazydelta.operations.maintenance import RestoreResult, VacuumResult
    from lazydelta.operations.optimize import OptimizeResult
    from lazydelta.scan import Where

__all__ = ["optimize", "purge", "restore", "vacuum"]


def optimize(spark: SparkSession, url: str, where: Where = None, **options: Any) -> OptimizeResult:
    """Rewrite files, as `Table.optimize` does."""
    result: OptimizeResult = _run("optimize", spark, url, where, **options)
    return result


def purge(spark: SparkSession, url: str, where: Where = None) -> OptimizeResult:
    """Rewrite files with deleted rows, as `Table.purge` does."""
    result: OptimizeResult = _run("purge", spark, url, where)
    return result


def vacuum(spark: SparkSession, url: str, retention: Any = None, **options: Any) -> VacuumResult:
    """Delete files that no version needs, as `Table.vacuum` does."""
    result: VacuumResult = _run("vacuum", spark, url, retention, **options)
    return result


def restore(spark: SparkSession, url: str, **options: Any) -> RestoreResult:
    """Make an older version the newest one, as `Table.restore` does."""
    result: RestoreResult = _run("restore", spark, url, **options)
    return result


def _run(name: str, spark: SparkSession, url: str, *arguments: Any, **options: Any) -> Any:
    if find_spec(f"{__package__}.maintenance") is None:
        return getattr(open_table(spark, url), name)(*arguments, **options)
    verb = getattr(import_module(f"{__package__}.maintenance"), name)
    return verb(spark, url, *arguments, **options)
