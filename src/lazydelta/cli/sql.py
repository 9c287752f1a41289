"""`lazydelta sql`: a query over one or more tables, on the engine that is installed."""

from __future__ import annotations

from typing import Any

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.row_output import row_options, show_rows
from lazydelta.cli.versions import open_table
from lazydelta.interop import QueryBuilder

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
@click.argument("query")
@click.option(
    "--table",
    "tables",
    type=_NamedTable(),
    multiple=True,
    required=True,
    help="A table and its name in the query; repeatable. NAME@VERSION=URL: that version.",
)
@click.option(
    "--engine",
    type=click.Choice(("duckdb", "datafusion")),
    help="Default: the one that is installed.",
)
@row_options
@common_options
@pass_state
def sql(
    state: State,
    /,
    query: str,
    *,
    tables: tuple[tuple[str, int | None, str], ...],
    engine: Any,
    as_csv: bool,
    parquet: str | None,
) -> None:
    """Run a query over tables and print its rows; filters and projections are pushed down.

    The query sees only the tables that --table names.
    """
    builder = QueryBuilder(engine)
    names = [name for name, _, _ in tables]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise click.UsageError(f"--table names two tables {', '.join(twice)}")
    for name, version, url in tables:
        builder.register(name, open_table(state, url).snapshot(version))
    show_rows(state, builder.execute(query), as_csv=as_csv, parquet=parquet)
