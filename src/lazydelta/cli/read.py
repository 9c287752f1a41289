"""`lazydelta head`, `count`, `partitions` and `changes`: commands that read rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output
from lazydelta.cli.row_output import row_options, show_rows
from lazydelta.cli.versions import Time, open_table, pick_snapshot, version_options

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["changes", "count", "head", "partitions"]

F = TypeVar("F", bound=Callable[..., Any])

where_option = click.option(
    "--where", metavar="SQL", help="Only rows that match, as in: day = '2026-01-31' AND fare > 50"
)


_ONE_NAME = r"\s*(?:`((?:[^`]|``)+)`|([^,`\s][^,`]*))\s*"
_NAME = re.compile(_ONE_NAME)
_NAME_LIST = re.compile(f"{_ONE_NAME}(?:,{_ONE_NAME})*")


class _Names(click.ParamType):
    """Column names, separated by commas; backticks quote any name, as in SQL."""

    name = "A,B,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        if isinstance(value, list):
            return value
        if not _NAME_LIST.fullmatch(value):
            self.fail("expected names separated by commas, as in a,`b, c`", param, ctx)
        return [
            plain.strip() or quoted.replace("``", "`") for quoted, plain in _NAME.findall(value)
        ]


columns_option = click.option("--columns", type=_Names(), help="Only these columns, in this order.")


@click.command()
@click.argument("url")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Maximum number of rows.",
)
@where_option
@columns_option
@version_options
@row_options
@common_options
@pass_state
def head(
    state: State,
    /,
    url: str,
    *,
    version: int | None,
    timestamp: datetime | None,
    as_csv: bool,
    parquet: str | None,
    **arguments: Any,
) -> None:
    """Show the first rows of the table at URL; no more files are read than they need.

    On a terminal: a table. In a pipe: tab-separated fields without a header, nested values as
    JSON. With --json: one object per line.
    """
    scan = pick_snapshot(state, url, version, timestamp).scan(**arguments)
    show_rows(state, scan.to_reader(), as_csv=as_csv, parquet=parquet)


@click.command()
@click.argument("url")
@where_option
@version_options
@common_options
@pass_state
def count(
    state: State,
    /,
    url: str,
    *,
    where: str | None,
    version: int | None,
    timestamp: datetime | None,
) -> None:
    """Count the rows of the table at URL, from its log alone where that is exact."""
    snapshot = pick_snapshot(state, url, version, timestamp)
    rows = snapshot.scan(where=where).count()
    output = Output(json=state.json)
    if output.json:
        output.document({"version": snapshot.version, "rows": rows})
    else:
        output.print(str(rows))


@click.command()
@click.argument("url")
@where_option
@version_options
@row_options
@common_options
@pass_state
def partitions(
    state: State,
    /,
    url: str,
    *,
    where: str | None,
    version: int | None,
    timestamp: datetime | None,
    as_csv: bool,
    parquet: str | None,
) -> None:
    """List the partitions of the table at URL that have rows, from its log alone where possible.

    Nothing is printed for a table without partition columns.
    """
    snapshot = pick_snapshot(state, url, version, timestamp)
    scan = snapshot.scan(where=where)
    if not snapshot.partition_columns:
        return
    names = [(name, "ascending") for name in snapshot.partition_columns]
    table = scan.partition_values().sort_by(names)
    show_rows(state, table.to_reader(), as_csv=as_csv, parquet=parquet)


def range_options(function: F) -> F:
    """Add the options of a range of versions to a command."""
    for option in (
        click.option(
            "--allow-out-of-range",
            is_flag=True,
            help="Cut a range that ends after the newest version instead of refusing it.",
        ),
        click.option(
            "--ending-timestamp", type=Time(), help="End at the last version up to this time."
        ),
        click.option(
            "--starting-timestamp", type=Time(), help="Start at the first version from this time."
        ),
        click.option(
            "--ending-version", type=click.IntRange(min=0), help="Default: the newest version."
        ),
        click.option("--starting-version", type=click.IntRange(min=0), help="Default: version 0."),
    ):
        function = option(function)
    return function


@click.command()
@click.argument("url")
@range_options
@click.option("-n", "--limit", type=click.IntRange(min=0), help="Maximum number of rows.")
@where_option
@columns_option
@row_options
@common_options
@pass_state
def changes(
    state: State,
    /,
    url: str,
    *,
    limit: int | None,
    as_csv: bool,
    parquet: str | None,
    **arguments: Any,
) -> None:
    """Show the changes of the table at URL, version by version; both ends are inclusive.

    The table must have a change data feed (delta.enableChangeDataFeed). Besides its columns a row
    has _change_type (insert, delete, update_preimage, update_postimage), _commit_version and
    _commit_timestamp; --where and --columns may name them too.
    """
    for end in ("starting", "ending"):
        if None not in (arguments[f"{end}_version"], arguments[f"{end}_timestamp"]):
            raise click.UsageError(f"give --{end}-version or --{end}-timestamp, not both")
    feed = open_table(state, url).changes(**arguments).narrowed(limit=limit)
    show_rows(state, feed.to_reader(), as_csv=as_csv, parquet=parquet)
