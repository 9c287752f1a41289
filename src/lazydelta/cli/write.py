"""`lazydelta write`: write files of rows to a table, as one version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lazydelta.cli.change_output import show_change
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.progress import Progress
from lazydelta.cli.row_files import RowFiles
from lazydelta.cli.versions import open_table
from lazydelta.errors import TableNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from lazydelta.table import Table

__all__ = ["write"]


@click.command()
@click.argument("url")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--mode",
    type=click.Choice(["error", "append", "overwrite", "ignore"]),
    default="append",
    show_default=True,
    help="What to do if the table exists.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "tsv", "json"]),
    help="Format of the files; by default inferred from their names. JSON has one row per line.",
)
@click.option(
    "--partition-by",
    multiple=True,
    metavar="COLUMN[,COLUMN...]",
    help="Partition columns of a new table.",
)
@click.option("--merge-schema", is_flag=True, help="Add new columns to the schema.")
@click.option(
    "--overwrite-schema", is_flag=True, help="With --mode overwrite: replace the schema too."
)
@click.option("--where", help="With --mode overwrite: which rows to replace.")
@click.option("--app-id", help="With --app-version: makes the write idempotent.")
@click.option("--app-version", type=int, help="The version of the application's transaction.")
@common_options
@pass_state
def write(
    state: State,
    /,
    url: str,
    *,
    files: tuple[Path, ...],
    mode: Any,
    kind: str | None,
    partition_by: tuple[str, ...],
    merge_schema: bool,
    overwrite_schema: bool,
    where: str | None,
    app_id: str | None,
    app_version: int | None,
) -> None:
    """Write the rows of FILES (Parquet, CSV or JSON lines) to the table at URL, as one version.

    Columns of CSV and JSON files get the types of the table's columns; for a new table they are
    inferred from the first file.
    """
    if merge_schema and overwrite_schema:
        raise click.UsageError("--merge-schema and --overwrite-schema exclude each other")
    table = open_table(state, url)
    rows = RowFiles(files, kind, None if overwrite_schema else _table_schema(table))
    columns = [column.strip() for names in partition_by for column in names.split(",")]
    with Progress(lambda: (rows.count, "writing"), enabled=not state.quiet, unit="rows"):
        result = table.write(
            rows.readers(),
            mode,
            partition_by=columns or None,
            schema_mode="merge" if merge_schema else "overwrite" if overwrite_schema else None,
            where=where,
            app_id=app_id,
            app_version=app_version,
        )
    show_change(state, result)


def _table_schema(table: Table) -> pa.Schema | None:
    try:
        return table.schema.to_arrow()
    except TableNotFoundError:
        return None
