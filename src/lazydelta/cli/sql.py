"""`lazydelta sql`: a query on the engine that is installed, or a statement that changes rows."""

from __future__ import annotations

import functools
from typing import Any

import click

from lazydelta.cli.change_options import FileProgress, change_options, confirm
from lazydelta.cli.change_output import show_change
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.row_output import row_options, show_rows
from lazydelta.cli.versions import open_table
from lazydelta.interop import sql as run_sql
from lazydelta.statements import Insert, Query, parse_statement

__all__ = ["sql"]


class _NamedTable(click.ParamType):
    """`NAME=URL`; `NAME@VERSION=URL` for an older version."""

    name = "NAME=URL"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | None, str]:
        if isinstance(value, tuple):
            return value
        name, sign, url = value.partition("=")
        name, at, version = name.strip().partition("@")
        if not sign or not name or not url or (at and not version.isdecimal()):
            self.fail("expected NAME=URL or NAME@VERSION=URL, as in t=s3://lake/t", param, ctx)
        return name, int(version) if at else None, url


@click.command()
@click.argument("statement")
@click.option(
    "--table",
    "tables",
    type=_NamedTable(),
    multiple=True,
    help="A table and its name in the statement; repeatable. NAME@VERSION=URL: that version.",
)
@click.option(
    "--engine",
    type=click.Choice(("duckdb", "datafusion")),
    help="Runs queries. Default: the one that is installed.",
)
@change_options
@row_options
@common_options
@pass_state
def sql(
    state: State,
    /,
    statement: str,
    *,
    tables: tuple[tuple[str, int | None, str], ...],
    engine: Any,
    app_id: str | None,
    app_version: int | None,
    dry_run: bool,
    yes: bool,
    as_csv: bool,
    parquet: str | None,
) -> None:
    """Run one statement: a query, whose rows are printed, or DELETE, UPDATE, INSERT or MERGE.

    A table is a name that --table defines, or a path or URL in backticks. Filters and projections
    of a query are pushed down.
    """
    names = [name for name, _, _ in tables]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise click.UsageError(f"--table names two tables {', '.join(twice)}")
    parsed = parse_statement(statement)
    progress = FileProgress(state)
    is_query = isinstance(parsed, Query)
    config = None if is_query else progress.config
    known: dict[str, Any] = {}
    for name, version, url in tables:
        table = open_table(state, url, config)
        known[name] = table if version is None else table.snapshot(version)
    run = functools.partial(run_sql, statement, known, storage_options=state.storage_options)
    if is_query:
        rows: Any = run(engine=engine)
        show_rows(state, rows, as_csv=as_csv, parquet=parquet)
        return
    if as_csv or parquet is not None:
        raise click.UsageError("--csv and --parquet are for queries")
    if not (isinstance(parsed, Insert) and not parsed.overwrite):
        confirm(f"Run {state.redact(statement)}?", yes=yes, dry_run=dry_run)
    options: dict[str, Any] = {"app_id": app_id, "app_version": app_version, "dry_run": dry_run}
    with progress.shown():
        result: Any = run(engine=engine, config=config, **options)
    show_change(state, result)
