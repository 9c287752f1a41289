"""A group of commands whose modules are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LaterGroup"]


class LaterGroup(click.Group):
    """A group that knows the module and the help line of each command without importing it.

    Args:
        later: The module in this package and the help line, by command.
        how: The arguments of `click.Group`.
    """

    def __init__(self, *, later: Mapping[str, tuple[str, str]], **how: Any) -> None:
        super().__init__(**how)
        self._later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `later`."""
        del ctx
        return list(self._later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in self._later:
            return None
        module = importlib.import_module(f"{__package__}.{self._later[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help lines without importing commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._later.items()])
