"""Confirmation before a command changes what cannot be restored."""

from __future__ import annotations

import sys

import click

__all__ = ["confirm", "yes_option"]

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal; `--yes` answers the question in advance.

    Raises:
        click.UsageError: There is no terminal to ask on.
        click.Abort: The answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Give --yes: there is no terminal to ask on.")
    click.confirm(question, abort=True, err=True)
