"""`lazydelta spark write` and `lazydelta spark checkpoint`: executors write, and their story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import lazydelta.spark as executors
from lazydelta.cli.pairs import Pair
from lazydelta.cli.spark_session import Start, session_options, show_story, working
from lazydelta.cli.spark_story import peak_memory
from lazydelta.cli.state import State, common_options, pass_state
from lazydelta.errors import ConfigError
from lazydelta.scan.plan import Explanation

if TYPE_CHECKING:
    from lazydelta.cli.spark_session import Work

__all__ = ["checkpoint", "write"]

_OPTIONS = {"csv": {"header": "true", "inferSchema": "true"}, "json": {}, "parquet": {}}
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}


@click.command()
@click.argument("url")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--mode",
    type=click.Choice(["error", "append", "overwrite", "ignore"]),
    default="append",
    show_default=True,
    help="What to do if there is a table.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_OPTIONS)),
    help="Of the files; by default the name of the first tells. JSON has one row per line.",
)
@click.option("--partition-by", multiple=True, metavar="COLUMN[,COLUMN...]", help="Of a new table.")
@click.option(
    "--property", "properties", type=Pair("KEY", "VALUE"), multiple=True, help="Of a new table."
)
@click.option("--merge-schema", is_flag=True, help="Add columns that the table does not have.")
@click.option("--overwrite-schema", is_flag=True, help="With --mode overwrite: also the schema.")
@click.option("--where", "predicate", help="With --mode overwrite: which rows to replace.")
@click.option("--app-id", help="With --app-version: write this step of an application only once.")
@click.option("--app-version", type=int, help="The number of the step.")
@click.option(
    "--rebalance/--no-rebalance",
    default=None,
    help="Bring rows of a partition together first; default: if the table is partitioned.",
)
@session_options
@common_options
@pass_state
def write(
    state: State,
    /,
    url: str,
    *,
    files: tuple[str, ...],
    kind: str | None,
    partition_by: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    merge_schema: bool,
    overwrite_schema: bool,
    start: Start,
    **how: Any,
) -> None:
    """Write the rows of FILES, read by Spark, to the table at URL as one version.

    FILES are Parquet, CSV with a header, or JSON lines: files, directories or patterns that Spark
    can open. Types of CSV and JSON columns are guessed, and must fit a table that is there.
    """
    if merge_schema and overwrite_schema:
        raise click.UsageError("--merge-schema and --overwrite-schema exclude each other")
    columns = [column.strip() for text in partition_by for column in text.split(",")]
    with working(state, start) as work:
        with work.phase("read", "looking at the files"):
            rows = _rows(work.spark, files, kind)
        with work.phase("write", "writing rows"):
            result = executors.write(
                rows,
                url,
                partition_by=columns or None,
                properties=dict(properties),
                schema_mode="merge" if merge_schema else "overwrite" if overwrite_schema else None,
                **how,
            )
        story = _story(result.to_dict(), work)
    for warning in result.warnings:
        click.echo(f"warning: {state.hide(warning)}", err=True)
    show_story(state, story)


@click.command()
@click.argument("url")
@click.option("--version", type=click.IntRange(min=0), help="A version; default: newest.")
@session_options
@common_options
@pass_state
def checkpoint(state: State, /, url: str, *, version: int | None, start: Start) -> None:
    """Write a checkpoint of the table at URL with Spark, nothing of it collected in one place.

    Tables of fewer files than spark.lazydelta.distributedLogReplay.fileThreshold are left to this
    process, as `lazydelta checkpoint` would do it.
    """
    with working(state, start) as work:
        with work.phase("checkpoint", "writing the checkpoint"):
            result = executors.checkpoint(work.spark, url, version)
        story = _story(result.to_dict(), work)
    show_story(state, story)


def _rows(spark: Any, files: tuple[str, ...], kind: str | None) -> Any:
    found = kind or next(
        (kind for suffix, kind in _SUFFIXES.items() if files[0].lower().endswith(suffix)), None
    )
    if found is None:
        raise ConfigError("--format", f"{files[0]} does not tell by its name; give the format")
    return spark.read.format(found).options(**_OPTIONS[found]).load(list(files))


def _story(result: dict[str, Any], work: Work) -> Explanation:
    result.pop("seconds", None)  # those of the phases say more
    return Explanation(result=result, seconds=work.seconds, peak_driver_memory=peak_memory())
