"""`lazydelta spark`: commands that start Spark, imported when one of them runs.

Nothing else requires PySpark, not even their help.
"""

from __future__ import annotations

import click

from lazydelta.cli.lazy_group import LazyGroup

__all__ = ["spark"]

_COMMANDS = {
    "plan": ("spark_jobs", "Plan a read of a table on executors and show its cost."),
    "read": ("spark_jobs", "Read rows of a table on executors."),
    "optimize": ("spark_maintenance", "Compact or cluster files on executors."),
    "purge": ("spark_maintenance", "Rewrite files with deleted rows on executors."),
    "restore": ("spark_maintenance", "Restore an older version with executors."),
    "vacuum": ("spark_maintenance", "Delete files that no version needs, on executors."),
    "write": ("spark_writes", "Write data files to a table on executors."),
}


@click.group(cls=LazyGroup, lazy_commands=_COMMANDS)
def spark() -> None:
    """Plan, read, write and maintain tables with Spark: a local session, or a Spark Connect server.

    Needs `pip install 'lazydelta[spark]'` and, without --remote, a Java 17 or newer.
    """
