"""`lazydelta optimize`, `purge`: rewrite files of a table without changing its rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output, human_bytes
from lazydelta.cli.progress import Progress
from lazydelta.cli.versions import open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.operations.optimize import OptimizeResult

__all__ = ["Size", "optimize", "optimize_options", "purge", "purge_options"]

F = TypeVar("F", bound=Callable[..., Any])

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Size(click.ParamType):
    """A number of bytes, as in 134217728, 128MB or 1.5 GiB; all units are powers of 1,024."""

    name = "SIZE"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Return the number of bytes."""
        match = _SIZE.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a size, as in 128MB", param, ctx)
        return int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])


_WHERE = click.option("--where", help="Which partitions; a predicate over partition columns.")
_MAX_BYTES = click.option("--max-bytes", type=Size(), help="Rewrite at most so much in this run.")
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Show what would be rewritten; write nothing."
)


def optimize_options(function: F) -> F:
    """Add the options of OPTIMIZE to a command."""
    options = (
        _WHERE,
        click.option(
            "--target-size", type=Size(), help="Size of new files; default: as for writes."
        ),
        click.option("--min-file-size", type=Size(), help="Leave larger files alone."),
        _MAX_BYTES,
        click.option(
            "--z-order",
            multiple=True,
            metavar="COLUMN[,COLUMN...]",
            help="Sort the rows of all files along a Z-order curve.",
            callback=lambda _, __, value: _column_names(value),
        ),
        click.option(
            "--cluster/--no-cluster",
            default=None,
            help="Cluster by the table's clustering columns; default: if it has any.",
        ),
        click.option("--full", is_flag=True, help="Cluster all files again."),
        _DRY_RUN,
    )
    return _with_options(function, options)


def purge_options(function: F) -> F:
    """Add the options of REORG to a command."""
    return _with_options(function, (_WHERE, _MAX_BYTES, _DRY_RUN))


def _with_options(function: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def _column_names(values: Sequence[str]) -> list[str]:
    return [column.strip() for names in values for column in names.split(",")]


@click.command()
@click.argument("url")
@optimize_options
@common_options
@pass_state
def optimize(state: State, /, url: str, **options: Any) -> None:
    """Rewrite small files of the table at URL into larger ones, or cluster its rows.

    Rows do not change. Each batch of files is a commit of its own, so an interrupted run keeps what
    it has done. The old files stay until VACUUM.
    """
    table = open_table(state, url)
    _run(state, lambda progress: table.optimize(**options, progress=progress))


@click.command()
@click.argument("url")
@purge_options
@common_options
@pass_state
def purge(state: State, /, url: str, **options: Any) -> None:
    """Rewrite files of the table at URL that store deleted rows or dropped columns."""
    table = open_table(state, url)
    _run(state, lambda progress: table.purge(**options, progress=progress))


def _run(state: State, run: Callable[[Callable[[int], None]], OptimizeResult]) -> None:
    done = [0]

    def count(files: int) -> None:
        done[0] += files

    with Progress(lambda: (done[0], "rewriting"), enabled=not state.quiet):
        result = run(count)
    output = Output(json=state.json)
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if output.json:
        output.document(result.to_dict())
    elif output.is_terminal:
        output.print(_sentence(result))
    else:
        output.flat(result.to_dict())


def _sentence(result: OptimizeResult) -> str:
    metrics = result.metrics
    files, size = metrics["numRemovedFiles"], human_bytes(metrics["numRemovedBytes"])
    if result.dry_run:
        return f"Would rewrite {files:,} files ({size})."
    if not result.versions:
        return f"Nothing to do, at version {result.version}."
    added, new_size = metrics["numAddedFiles"], human_bytes(metrics["numAddedBytes"])
    depths = "; ".join(
        f"overlap depth of {column}: {before:g} before, {result.quality['after'][column]:g} after"
        for column, before in result.quality.get("before", {}).items()
    )
    return (
        f"Version {result.version}: {files:,} files ({size}) became {added:,} ({new_size})"
        f"{'; ' + depths if depths else ''}."
    )
