"""`lazydelta spark write`: writing on executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import lazydelta.spark as executors
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.key_value import KeyValue
from lazydelta.cli.spark_progress import peak_memory
from lazydelta.cli.spark_session import SessionOptions, run_session, session_options, show_report
from lazydelta.errors import ConfigError
from lazydelta.scan.plan import Explanation

if TYPE_CHECKING:
    from lazydelta.cli.spark_session import SessionRun

__all__ = ["write"]

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
    help="What to do with an existing table.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_OPTIONS)),
    help="Format of the files; default: by the suffix of the first. JSON has one row per line.",
)
@click.option("--partition-by", multiple=True, metavar="COLUMN[,COLUMN...]", help="Of a new table.")
@click.option(
    "--property", "properties", type=KeyValue("KEY", "VALUE"), multiple=True, help="Of a new table."
)
@click.option("--merge-schema", is_flag=True, help="Add columns that the table does not have.")
@click.option("--overwrite-schema", is_flag=True, help="With --mode overwrite: also the schema.")
@click.option("--where", help="With --mode overwrite: which rows to replace.")
@click.option("--app-id", help="With --app-version: apply this application transaction only once.")
@click.option("--app-version", type=int, help="The version of the transaction.")
@click.option(
    "--rebalance/--no-rebalance",
    default=None,
    help="Shuffle rows by partition first; default: if the table is partitioned.",
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
    session: SessionOptions,
    **how: Any,
) -> None:
    """Write the rows of FILES to the table at URL as one version, with Spark.

    FILES are Parquet, CSV with a header, or JSON lines: files, directories or glob patterns that
    Spark can open. Spark infers the types of CSV and JSON columns; they must fit an existing table.
    """
    if merge_schema and overwrite_schema:
        raise click.UsageError("--merge-schema and --overwrite-schema exclude each other")
    columns = [column.strip() for names in partition_by for column in names.split(",")]
    with run_session(state, session) as run:
        with run.phase("read", "reading the schema of the files"):
            rows = _rows(run.spark, files, kind)
        with run.phase("write", "writing rows"):
            result = executors.write(
                rows,
                url,
                partition_by=columns or None,
                properties=dict(properties),
                schema_mode="merge" if merge_schema else "overwrite" if overwrite_schema else None,
                **how,
            )
        report = _report(result.to_dict(), run)
    for warning in result.warnings:
        click.echo(f"warning: {state.redact(warning)}", err=True)
    show_report(state, report)


def _rows(spark: Any, files: tuple[str, ...], kind: str | None) -> Any:
    file_format = kind or next(
        (kind for suffix, kind in _SUFFIXES.items() if files[0].lower().endswith(suffix)), None
    )
    if file_format is None:
        raise ConfigError("--format", f"is required: {files[0]} has no known suffix")
    return spark.read.format(file_format).options(**_OPTIONS[file_format]).load(list(files))


def _report(result: dict[str, Any], run: SessionRun) -> Explanation:
    result.pop("seconds", None)  # reported by phase
    return Explanation(result=result, seconds=run.seconds, peak_driver_memory=peak_memory())
