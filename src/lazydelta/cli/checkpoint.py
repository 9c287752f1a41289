"""`lazydelta checkpoint`: write the checkpoint of a version, or compact a range of commits."""

from __future__ import annotations

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output
from lazydelta.cli.versions import open_table

__all__ = ["checkpoint"]


@click.command()
@click.argument("url")
@click.option("--version", type=click.IntRange(min=0), help="A version; default: newest.")
@click.option(
    "--compact",
    "versions",
    type=(click.IntRange(min=0), click.IntRange(min=1)),
    metavar="FIRST LAST",
    help="Compact these commits into one file instead.",
)
@common_options
@pass_state
def checkpoint(
    state: State, /, url: str, *, version: int | None, versions: tuple[int, int] | None
) -> None:
    """Write a checkpoint of the table at URL, sorted for data skipping.

    Commits write one every delta.checkpointInterval versions. No data file is read or written.
    """
    if version is not None and versions is not None:
        raise click.UsageError("give --version or --compact, not both")
    table = open_table(state, url)
    result = table.checkpoint(version) if versions is None else table.compact_log(*versions)
    output = Output(json=state.json)
    if output.json:
        output.document(result.to_dict())
    elif output.is_terminal:
        output.facts(result.to_dict())
    else:
        output.flat(result.to_dict())
