"""Options of commands that delete or change rows: confirmation, dry run, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lazydelta.cli.output import visible
from lazydelta.cli.progress import Progress
from lazydelta.config import Config
from lazydelta.metrics import StoreCalled

if TYPE_CHECKING:
    from lazydelta.cli.common_options import State
    from lazydelta.metrics import Event

__all__ = ["FileProgress", "change_options", "confirm"]

F = TypeVar("F", bound=Callable[..., Any])


def change_options(function: F) -> F:
    """Add `--dry-run`, `--yes`, `--app-id` and `--app-version` to a command."""
    for option in (
        click.option(
            "--app-version", type=int, help="The version of the application's transaction."
        ),
        click.option("--app-id", help="With --app-version: makes the operation idempotent."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask; required in a script."),
        click.option("--dry-run", is_flag=True, help="Print what would happen; write nothing."),
    ):
        function = option(function)
    return function


def confirm(question: str, *, yes: bool, dry_run: bool) -> None:
    """Ask before rows are changed, unless `--yes` or `--dry-run` was given.

    Raises:
        click.UsageError: Standard input is not a terminal.
        click.Abort: The answer is no.
    """
    if yes or dry_run:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is not a terminal: confirm with --yes, or use --dry-run"
        )
    click.confirm(visible(question), abort=True, err=True)


class FileProgress:
    """Shows on a terminal how many data files were read and written so far."""

    def __init__(self, state: State) -> None:
        self._read: set[int] = set()
        self._written = 0
        self._enabled = not state.quiet and sys.stderr.isatty()

    @property
    def config(self) -> Config | None:
        """The configuration of the environment, with an observer; None if nothing is shown."""
        return replace(Config.from_env(), observer=self._observe) if self._enabled else None

    def shown(self) -> Progress:
        """Return the progress line, to use in a `with` statement."""
        return Progress(self._describe, enabled=self._enabled)

    def _observe(self, event: Event, /) -> None:
        if not isinstance(event, StoreCalled) or event.path.startswith("_delta_log/"):
            return
        if event.operation == "read":
            self._read.add(hash(event.path))
        elif event.operation == "write":
            self._written += 1

    def _describe(self) -> tuple[int, str]:
        if self._written:
            return self._written, f"{len(self._read):,} files read, writing"
        return len(self._read), "reading"
