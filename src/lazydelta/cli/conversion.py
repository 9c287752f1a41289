"""`lazydelta convert`, `clone`: tables from existing files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.key_value import KeyValue
from lazydelta.cli.output import Output, human_bytes
from lazydelta.cli.versions import open_table
from lazydelta.table import convert as convert_directory

if TYPE_CHECKING:
    from lazydelta.operations.conversion import CloneResult, ConvertResult

__all__ = ["clone", "convert"]


@click.command()
@click.argument("url")
@click.option(
    "--partition-by",
    default="",
    metavar="COLUMNS",
    help='Partition columns that directories name, as in "day date, country string".',
)
@click.option(
    "--property", "properties", type=KeyValue("KEY", "VALUE"), multiple=True, help="Repeatable."
)
@click.option("--dry-run", is_flag=True, help="Validate the files; write nothing.")
@common_options
@pass_state
def convert(
    state: State,
    /,
    url: str,
    *,
    partition_by: str,
    properties: tuple[tuple[str, str], ...],
    dry_run: bool,
) -> None:
    """Make a table of the Parquet files below URL, in place.

    Columns and statistics come from the footers; no data file is read or written.
    """
    result = convert_directory(
        url,
        partition_by or (),
        properties=dict(properties),
        storage_options=state.storage_options or None,
        dry_run=dry_run,
    )
    done = "Would convert" if dry_run else f"Version {result.version}: converted"
    _show(
        state, result,
        f"{done} {result.files:,} files with {result.rows:,} rows ({human_bytes(result.bytes)}).",
    )  # fmt: skip


@click.command()
@click.argument("url")
@click.argument("target")
@click.option("--deep", is_flag=True, help="Copy the files instead of referring to them.")
@click.option("--version", type=click.IntRange(min=0), help="A version; default: newest.")
@click.option("--dry-run", is_flag=True, help="Show what would be cloned; write nothing.")
@common_options
@pass_state
def clone(
    state: State, /, url: str, *, target: str, deep: bool, version: int | None, dry_run: bool
) -> None:
    """Create a table at TARGET with the rows of the table at URL.

    A shallow clone refers to the files of its source, and breaks when VACUUM deletes them.
    """
    table = open_table(state, url)
    result = table.clone(
        target,
        shallow=not deep,
        version=version,
        storage_options=state.storage_options or None,
        dry_run=dry_run,
    )
    done = "Would clone" if dry_run else f"Version {result.version} of {result.table}: cloned"
    copied = f", {result.files_copied:,} copied" if deep and not dry_run else ""
    _show(state, result, f"{done} {result.files:,} files ({human_bytes(result.bytes)}){copied}.")


def _show(state: State, result: ConvertResult | CloneResult, sentence: str) -> None:
    output = Output(json=state.json)
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if output.json:
        output.document(result.to_dict())
    elif output.is_terminal:
        output.print(sentence)
    else:
        output.flat(result.to_dict())
