"""Delta tables on Spark: log replay, data skipping, reads and writes on executors.

Uses stock PySpark: no JAR, no `_jvm`, no RDD, so the same calls work on a local session, a cluster
and Spark Connect. Requires the extra `lazydelta[spark]`; `import lazydelta` does not.
"""

from __future__ import annotations

from lazydelta.errors import MissingExtraError

try:
    import pyspark  # noqa: F401 - to raise a typed error
except ModuleNotFoundError:
    raise MissingExtraError("pyspark", "spark") from None

from lazydelta.spark.changes import changes
from lazydelta.spark.checkpoint import checkpoint
from lazydelta.spark.delta_api import DeltaTable
from lazydelta.spark.dml import delete, merge, update
from lazydelta.spark.hadoop_settings import hadoop_settings
from lazydelta.spark.jobs import described
from lazydelta.spark.maintenance import optimize, purge, restore, vacuum
from lazydelta.spark.package_shipping import ship
from lazydelta.spark.planner import (
    apply_data_skipping,
    distributed_log_replay,
    explain_replay,
    live_files,
)
from lazydelta.spark.read import explain_read, read, to_arrow
from lazydelta.spark.registration import register
from lazydelta.spark.session import connect_session, local_session
from lazydelta.spark.sql_statements import sql
from lazydelta.spark.table_names import attach
from lazydelta.spark.write import write

__all__ = [
    "DeltaTable",
    "apply_data_skipping",
    "attach",
    "changes",
    "checkpoint",
    "connect_session",
    "delete",
    "described",
    "distributed_log_replay",
    "explain_read",
    "explain_replay",
    "hadoop_settings",
    "live_files",
    "local_session",
    "merge",
    "optimize",
    "purge",
    "read",
    "register",
    "restore",
    "ship",
    "sql",
    "to_arrow",
    "update",
    "vacuum",
    "write",
]
