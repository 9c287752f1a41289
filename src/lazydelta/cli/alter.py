"""`lazydelta alter`: change columns, properties, constraints or the protocol; one commit each."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.key_value import KeyValue
from lazydelta.cli.output import Output
from lazydelta.cli.versions import open_table

if TYPE_CHECKING:
    from lazydelta.operations import Alter, AlterResult

__all__ = ["alter"]

_URL = "lazydelta.url"


class _AlterGroup(click.Group):
    """A group whose subcommands show their help without a URL: `alter add-column --help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        wants_help = set(args) & set(ctx.help_option_names)
        if wants_help and args[0] in self.commands:
            args = ["URL", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_AlterGroup)
@click.argument("url")
@click.pass_context
def alter(ctx: click.Context, /, url: str) -> None:
    """Change columns, properties, constraints or the protocol of the table at URL.

    Columns are named as in SQL: `trip.stops.element.name` is a field of nested structs and lists,
    and backticks quote a name. A change without effect commits nothing.
    """
    ctx.meta[_URL] = url


def _alter(state: State) -> Alter:
    return open_table(state, click.get_current_context().meta[_URL]).alter


def _show(state: State, result: AlterResult) -> None:
    output = Output(json=state.json)
    if output.json:
        output.document(asdict(result))
    elif not result.changed:
        output.print(f"version {result.version}: nothing to change")
    else:
        output.print(f"version {result.version}: {result.operation}")
    for warning in result.warnings if not (state.quiet or output.json) else ():
        click.echo(f"warning: {state.redact(warning)}", err=True)


@alter.command()
@click.argument("column")
@click.argument("kind", metavar="TYPE")
@click.option("--after", help="Insert it after this column.")
@click.option("--first", is_flag=True, help="Insert it as the first column.")
@common_options
@pass_state
def add_column(
    state: State,
    /,
    column: str,
    kind: str,
    *,
    after: str | None,
    first: bool,
) -> None:
    """Add a column; it is null in existing rows."""
    _show(state, _alter(state).add_columns({column: kind}, after=after, first=first))


@alter.command()
@click.argument("column")
@click.argument("name")
@common_options
@pass_state
def rename_column(state: State, /, column: str, name: str) -> None:
    """Rename a column; needs column mapping."""
    _show(state, _alter(state).rename_column(column, name))


@alter.command()
@click.argument("column")
@common_options
@pass_state
def drop_column(state: State, /, column: str) -> None:
    """Drop a column; needs column mapping."""
    _show(state, _alter(state).drop_column(column))


@alter.command()
@click.argument("column")
@click.argument("kind", metavar="TYPE")
@common_options
@pass_state
def change_type(state: State, /, column: str, kind: str) -> None:
    """Widen the type of a column; needs delta.enableTypeWidening."""
    _show(state, _alter(state).change_type(column, kind))


@alter.command()
@click.argument("column")
@common_options
@pass_state
def set_not_null(state: State, /, column: str) -> None:
    """Set NOT NULL on a column without nulls."""
    _show(state, _alter(state).set_nullable(column, nullable=False))


@alter.command()
@click.argument("column")
@common_options
@pass_state
def drop_not_null(state: State, /, column: str) -> None:
    """Drop NOT NULL from a column."""
    _show(state, _alter(state).set_nullable(column))


@alter.command()
@click.argument("column")
@click.argument("comment")
@common_options
@pass_state
def set_comment(state: State, /, column: str, comment: str) -> None:
    """Set the comment of a column; an empty string removes it."""
    _show(state, _alter(state).set_comment(column, comment or None))


@alter.command()
@click.argument("column")
@click.argument("expression")
@common_options
@pass_state
def set_default(state: State, /, column: str, expression: str) -> None:
    """Set the default of a column, for rows written without it; an empty string removes it."""
    _show(state, _alter(state).set_default(column, expression or None))


@alter.command("set")
@click.argument("properties", type=KeyValue("KEY", "VALUE"), nargs=-1, required=True)
@common_options
@pass_state
def set_properties(state: State, /, properties: tuple[tuple[str, str], ...]) -> None:
    """Set table properties, and upgrade the protocol if they need it."""
    _show(state, _alter(state).set_properties(dict(properties)))


@alter.command("unset")
@click.argument("keys", nargs=-1, required=True)
@click.option("--missing-ok", is_flag=True, help="No error if the table has no such property.")
@common_options
@pass_state
def unset_properties(state: State, /, keys: tuple[str, ...], *, missing_ok: bool) -> None:
    """Unset table properties, which restores their defaults."""
    _show(state, _alter(state).unset_properties(*keys, missing_ok=missing_ok))


@alter.command()
@click.argument("name")
@click.argument("expression")
@common_options
@pass_state
def add_constraint(state: State, /, name: str, expression: str) -> None:
    """Add a CHECK constraint, after validating it on all rows."""
    _show(state, _alter(state).add_constraint(name, expression))


@alter.command()
@click.argument("name")
@click.option("--missing-ok", is_flag=True, help="No error if there is no such constraint.")
@common_options
@pass_state
def drop_constraint(state: State, /, name: str, *, missing_ok: bool) -> None:
    """Drop a CHECK constraint."""
    _show(state, _alter(state).drop_constraint(name, missing_ok=missing_ok))


@alter.command()
@click.argument("name")
@common_options
@pass_state
def set_name(state: State, /, name: str) -> None:
    """Set the name of the table."""
    _show(state, _alter(state).set_name(name or None))


@alter.command()
@click.argument("description")
@common_options
@pass_state
def set_description(state: State, /, description: str) -> None:
    """Set the description of the table."""
    _show(state, _alter(state).set_description(description or None))


@alter.command()
@click.argument("names", nargs=-1, required=True)
@common_options
@pass_state
def add_feature(state: State, /, names: tuple[str, ...]) -> None:
    """Enable table features by name."""
    _show(state, _alter(state).add_feature(*names))


@alter.command()
@click.option("--reader", type=click.IntRange(min=1), help="Minimum reader version.")
@click.option("--writer", type=click.IntRange(min=1), help="Minimum writer version.")
@common_options
@pass_state
def upgrade_protocol(state: State, /, *, reader: int | None, writer: int | None) -> None:
    """Upgrade the protocol versions; a downgrade is refused."""
    _show(state, _alter(state).upgrade_protocol(reader, writer))
