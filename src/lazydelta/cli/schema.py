"""`lazydelta schema`: the schema of a table, as a tree, as Delta JSON, or as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output, visible
from lazydelta.cli.versions import pick_snapshot, version_options
from lazydelta.schema import ArrayType, DataType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = ["schema"]


@click.command()
@click.argument("url")
@version_options
@click.option("--arrow", "as_arrow", is_flag=True, help="Print the Arrow schema of the rows.")
@common_options
@pass_state
def schema(
    state: State,
    /,
    url: str,
    *,
    version: int | None,
    timestamp: datetime | None,
    as_arrow: bool,
) -> None:
    """Show the schema of the table at URL, nested fields indented.

    With --json: the schema string of the log.
    """
    if as_arrow and state.json:
        raise click.UsageError("--arrow and --json exclude each other")
    snapshot = pick_snapshot(state, url, version, timestamp)
    output = Output(json=state.json)
    if output.json:
        output.print(snapshot.metadata.schema_string)
    elif as_arrow:
        for line in str(snapshot.schema.to_arrow()).splitlines():
            output.print(visible(line))
    else:
        partition = set(snapshot.partition_columns)
        for field in snapshot.schema:
            mark = "  (partition)" if field.name in partition else ""
            for line in _lines(field.name, field.type, nullable=field.nullable, mark=mark):
                output.print(visible(line))


def _lines(
    name: str, kind: DataType, *, nullable: bool, mark: str = "", depth: int = 0
) -> Iterator[str]:
    """Yield a line for a field, and indented lines for its nested fields."""
    type_name = {StructType: "struct", ArrayType: "array", MapType: "map"}.get(
        type(kind), str(kind)
    )
    if isinstance(kind, ArrayType | MapType) and not _is_deep(kind):
        type_name = str(kind)
    yield f"{'  ' * depth}{name}: {type_name}{'' if nullable else ' not null'}{mark}"
    for inner, part, may_be_null in _parts(kind):
        yield from _lines(inner, part, nullable=may_be_null, depth=depth + 1)


def _parts(kind: DataType) -> list[tuple[str, DataType, bool]]:
    if isinstance(kind, StructType):
        return [(field.name, field.type, field.nullable) for field in kind]
    if isinstance(kind, ArrayType) and _is_deep(kind):
        return [("element", kind.element, kind.contains_null)]
    if isinstance(kind, MapType) and _is_deep(kind):
        return [("key", kind.key, False), ("value", kind.value, kind.value_contains_null)]
    return []


def _is_deep(kind: DataType) -> bool:
    """Whether a type contains a struct, and so needs more than one line."""
    if isinstance(kind, ArrayType):
        return _is_deep(kind.element)
    if isinstance(kind, MapType):
        return _is_deep(kind.key) or _is_deep(kind.value)
    return isinstance(kind, StructType)
