"""`lazydelta create`: a new empty table, from SQL or the schema of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.key_value import KeyValue
from lazydelta.cli.output import Output
from lazydelta.errors import ConfigError
from lazydelta.parquet.footer import read_footer
from lazydelta.table import Table

if TYPE_CHECKING:
    from lazydelta.table import Snapshot

__all__ = ["create"]


@click.command()
@click.argument("url")
@click.option("--schema", "ddl", help='Columns, as in "id bigint not null, day date".')
@click.option(
    "--schema-from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the columns of a .parquet file, or a .json file with a Delta schema.",
)
@click.option("--partition-by", "partition_by", multiple=True, metavar="COLUMN[,COLUMN...]")
@click.option(
    "--property", "properties", type=KeyValue("KEY", "VALUE"), multiple=True, help="Repeatable."
)
@click.option(
    "--constraint", "constraints", type=KeyValue("NAME", "EXPR"), multiple=True, help="Repeatable."
)
@click.option("--name", help="The name of the table.")
@click.option("--description", help="The description of the table.")
@click.option("--if-not-exists", is_flag=True, help="No error if it exists with these columns.")
@common_options
@pass_state
def create(
    state: State,
    /,
    url: str,
    *,
    ddl: str | None,
    file: Path | None,
    partition_by: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    constraints: tuple[tuple[str, str], ...],
    name: str | None,
    description: str | None,
    if_not_exists: bool,
) -> None:
    """Create an empty table at URL.

    Columns may have NOT NULL, COMMENT 'string', DEFAULT expression, GENERATED ALWAYS AS (expr) and
    GENERATED ALWAYS (or BY DEFAULT) AS IDENTITY.
    """
    if (ddl is None) == (file is None):
        raise click.UsageError("give the columns with --schema or with --schema-from")
    columns = [column.strip() for names in partition_by for column in names.split(",")]
    table = Table.create(
        url,
        ddl if file is None else _columns_of(file),
        partition_by=columns,
        properties=dict(properties),
        constraints=dict(constraints),
        name=name,
        description=description,
        mode="ignore" if if_not_exists else "error",
        storage_options=state.storage_options or None,
    )
    _show(Output(json=state.json), table.snapshot())


def _columns_of(file: Path) -> Any:
    """Return the schema of a Parquet file, or in a JSON file."""
    if file.suffix.lower() == ".json":
        document = file.read_text(encoding="utf-8")
        if not document.lstrip().startswith("{"):
            raise ConfigError(str(file), "is not the JSON of a Delta schema")
        return document
    if file.suffix.lower() == ".parquet":
        import pyarrow as pa

        try:
            return read_footer(pa.OSFile(str(file))).schema
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ConfigError(str(file), f"cannot be read as parquet: {error}") from None
    raise ConfigError("--schema-from", f"{file.name} is neither a .parquet nor a .json file")


def _show(output: Output, snapshot: Snapshot) -> None:
    protocol = snapshot.protocol
    facts = {
        "table": snapshot.store.root,
        "version": snapshot.version,
        "columns": [str(field) for field in snapshot.schema],
        "partition_columns": list(snapshot.partition_columns),
        "min_reader_version": protocol.min_reader_version,
        "min_writer_version": protocol.min_writer_version,
        "features": sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())}),
    }
    if output.json:
        output.document(facts)
    elif output.is_terminal:
        output.facts(facts)
    else:
        output.flat(facts)
