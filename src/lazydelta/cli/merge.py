"""`lazydelta merge`: merge rows of files or of a table into a table, as one version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lazydelta.cli.change_options import FileProgress, change_options, confirm
from lazydelta.cli.change_output import show_change
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.row_files import RowFiles, row_file_kind
from lazydelta.cli.versions import open_table
from lazydelta.interop import sql as run_sql
from lazydelta.statements import parse_statement

if TYPE_CHECKING:
    from lazydelta.table import Table

__all__ = ["merge"]

_COLUMNS = re.compile(r"\s*\w+\s*(,\s*\w+\s*)*")


@click.command()
@click.argument("url")
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    help="Parquet, CSV or JSON files with the source rows, repeatable; or the URL of a table.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "tsv", "json"]),
    help="Format of the files; by default inferred from their names. JSON has one row per line.",
)
@click.option(
    "--on",
    required=True,
    metavar="CONDITION|COLUMN[,COLUMN...]",
    help="Which rows match: columns that are equal, or a condition like 't.id = s.id'.",
)
@click.option("--target-alias", default="t", show_default=True, help="The table in expressions.")
@click.option("--source-alias", default="s", show_default=True, help="The source in expressions.")
@click.option("--upsert", is_flag=True, help="Update matching rows, and insert new ones.")
@click.option("--insert-new", is_flag=True, help="Insert source rows that match none.")
@click.option("--delete-matched", is_flag=True, help="Delete the rows that match.")
@click.option(
    "--when",
    "clauses",
    multiple=True,
    metavar="CLAUSE",
    help="A clause of MERGE, repeatable: 'MATCHED AND s.gone THEN DELETE'. Earlier ones win.",
)
@click.option("--merge-schema", is_flag=True, help="Add new columns to the schema.")
@change_options
@common_options
@pass_state
def merge(
    state: State,
    /,
    url: str,
    *,
    sources: tuple[str, ...],
    kind: str | None,
    on: str,
    target_alias: str,
    source_alias: str,
    upsert: bool,
    insert_new: bool,
    delete_matched: bool,
    clauses: tuple[str, ...],
    merge_schema: bool,
    app_id: str | None,
    app_version: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Merge source rows into the table at URL, as one version.

    lazydelta merge URL --source new.csv --on id --upsert
    """
    parts = [*clauses, *_shorthand(upsert, insert_new, delete_matched)]
    if not parts:
        raise click.UsageError("give --upsert, --insert-new, --delete-matched or --when")
    target, source = _quoted(target_alias), _quoted(source_alias)
    words = ["MERGE WITH SCHEMA EVOLUTION" if merge_schema else "MERGE"]
    words += [f"INTO target AS {target} USING source AS {source}"]
    words += [f"ON {_condition(on, target, source)}", *map(_clause, parts)]
    statement = " ".join(words)
    parse_statement(statement)
    shown = ", ".join(map(state.redact, sources))
    confirm(f"Merge {shown} into {state.redact(url)}?", yes=yes, dry_run=dry_run)
    progress = FileProgress(state)
    table = open_table(state, url, progress.config)
    tables = {"target": table, "source": _source(state, sources, kind, table)}
    options: dict[str, Any] = {"app_id": app_id, "app_version": app_version, "dry_run": dry_run}
    with progress.shown():
        result: Any = run_sql(statement, tables, **options)
    show_change(state, result)


def _shorthand(upsert: bool, insert_new: bool, delete_matched: bool) -> list[str]:
    if upsert and (insert_new or delete_matched):
        raise click.UsageError("--upsert excludes --insert-new and --delete-matched")
    clauses = {
        "MATCHED THEN DELETE": delete_matched,
        "MATCHED THEN UPDATE SET *": upsert,
        "NOT MATCHED THEN INSERT *": upsert or insert_new,
    }
    return [clause for clause, is_given in clauses.items() if is_given]


def _clause(clause: str) -> str:
    return clause if clause.lower().startswith("when ") else f"WHEN {clause}"


def _condition(on: str, target: str, source: str) -> str:
    """Return a condition; names of columns mean that they are equal."""
    if not _COLUMNS.fullmatch(on):
        return on
    names = [_quoted(name.strip()) for name in on.split(",")]
    return " AND ".join(f"{target}.{name} = {source}.{name}" for name in names)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _source(state: State, sources: tuple[str, ...], kind: str | None, table: Table) -> Any:
    """Return the rows of files, or a table."""
    is_file = kind is not None or row_file_kind(Path(sources[0])) is not None
    if len(sources) == 1 and not (is_file and Path(sources[0]).is_file()):
        return open_table(state, sources[0])
    files = [Path(source) for source in sources]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise click.UsageError(f"--source: there is no file {missing[0]}")
    return RowFiles(files, kind, table.schema.to_arrow()).readers()
