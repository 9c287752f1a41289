"""`lazydelta spark`: the commands that start Spark, imported when one of them runs.

PySpark need not be installed for anything else, its help included.
"""

from __future__ import annotations

import click

from lazydelta.cli.later import LaterGroup

__all__ = ["spark"]

_COMMANDS = {
    "plan": ("spark_jobs", "Plan a read of a table with executors and show what that took."),
    "read": ("spark_jobs", "Read rows of a table with executors."),
    "write": ("spark_writes", "Write files of rows to a table with executors."),
    "checkpoint": ("spark_writes", "Write a checkpoint of a huge table with executors."),
}


@click.group(cls=LaterGroup, later=_COMMANDS)
def spark() -> None:
    """Plan, read and write tables with Spark: one started here for the command, or a server.

    Needs `pip install 'lazydelta[spark]'` and, without --remote, a Java 17 or newer.
    """
