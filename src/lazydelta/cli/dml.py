"""`lazydelta delete` and `update`: change rows of a table, as one version."""

from __future__ import annotations

from typing import Any

import click

from lazydelta.cli.change_options import FileProgress, change_options, confirm
from lazydelta.cli.change_output import show_change
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.key_value import KeyValue
from lazydelta.cli.versions import open_table

__all__ = ["delete", "update"]


@click.command()
@click.argument("url")
@click.option("--where", help="Which rows to delete; default: all.")
@change_options
@common_options
@pass_state
def delete(
    state: State,
    /,
    url: str,
    *,
    where: str | None,
    app_id: str | None,
    app_version: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete rows of the table at URL, as one version; nothing is committed if none match."""
    rows = "ALL rows" if where is None else f"the rows where {where}"
    confirm(f"Delete {rows} of {state.redact(url)}?", yes=yes, dry_run=dry_run)
    progress = FileProgress(state)
    table = open_table(state, url, progress.config)
    with progress.shown():
        result = table.delete(where, app_id=app_id, app_version=app_version, dry_run=dry_run)
    show_change(state, result)


@click.command()
@click.argument("url")
@click.option(
    "--set",
    "assignments",
    type=KeyValue("COLUMN", "EXPRESSION"),
    multiple=True,
    required=True,
    help="A column and its new value, an SQL expression over the old row; repeatable.",
)
@click.option("--where", help="Which rows to change; default: all.")
@change_options
@common_options
@pass_state
def update(
    state: State,
    /,
    url: str,
    *,
    assignments: tuple[tuple[str, str], ...],
    where: str | None,
    app_id: str | None,
    app_version: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Change columns of rows of the table at URL, as one version.

    lazydelta update URL --set "fare=fare * 1.19" --set "checked=true" --where "country = 'DE'"
    """
    columns = dict(assignments)
    if len(columns) < len(assignments):
        raise click.UsageError("--set assigns a column twice")
    rows = "ALL rows" if where is None else f"the rows where {where}"
    question = f"Update {', '.join(columns)} in {rows} of {state.redact(url)}?"
    confirm(question, yes=yes, dry_run=dry_run)
    progress = FileProgress(state)
    table = open_table(state, url, progress.config)
    options: dict[str, Any] = {"app_id": app_id, "app_version": app_version}
    with progress.shown():
        result = table.update(columns, where, dry_run=dry_run, **options)
    show_change(state, result)
