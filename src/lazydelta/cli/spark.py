"""`lazydelta spark`: the commands that start Spark, imported when one of them runs.

PySpark need not be installed for anything else, its help included.
"""

from __future__ import annotations

import importlib

import click

__all__ = ["spark"]

_COMMANDS = {
    "plan": ("spark_jobs", "Plan a read of a table with executors and show what that took."),
    "read": ("spark_jobs", "Read rows of a table with executors."),
    "write": ("spark_writes", "Write files of rows to a table with executors."),
    "checkpoint": ("spark_writes", "Write a checkpoint of a huge table with executors."),
}


class _Commands(click.Group):
    """A group whose commands live in modules that need PySpark."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"{__package__}.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=_Commands)
def spark() -> None:
    """Plan, read and write tables with Spark, started on this machine for the command.

    Needs `pip install 'lazydelta[spark]'` and a Java 17 or newer.
    """
