"""A group of commands whose modules are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """A group that lists its commands without importing their modules.

    Args:
        lazy_commands: The module in this package and the help line, by command.
        arguments: The arguments of `click.Group`.
    """

    def __init__(self, *, lazy_commands: Mapping[str, tuple[str, str]], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `lazy_commands`."""
        del ctx
        return list(self._lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in self._lazy_commands:
            return None
        module = importlib.import_module(f"{__package__}.{self._lazy_commands[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help lines without importing commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._lazy_commands.items()])
