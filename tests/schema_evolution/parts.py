"""Parts of a schema evolution step: data files, queries and schema fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

__all__ = ["File", "Query", "Row", "Step", "array", "column", "mapped", "struct", "without"]

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class File:
    """A data file: its stored values, and the table rows they represent."""

    name: str
    schema: pa.Schema
    """Physical names, without partition columns."""
    stored: list[Row]
    """Values by physical name."""
    rows: list[Row]
    """Rows as read at the version that adds the file."""
    partition: dict[str, str | None]
    """Serialized values by physical name."""
    deleted: tuple[int, ...] = ()
    """Positions in the deletion vector."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query of a version: its predicate, the files that may match and the rows that do."""

    where: str
    files: set[str]
    test: Callable[[Row], bool | None]
    """Whether a row of that version matches; None is NULL, which is no match."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One version of the table."""

    name: str
    fields: list[dict[str, Any]]
    """Fields of `metaData.schemaString`."""
    files: list[File] = field(default_factory=list)
    replaced: tuple[str, ...] = ()
    """Files that it removes, or adds again with a deletion vector."""
    configuration: dict[str, str] = field(default_factory=dict)
    """All table properties from this version on."""
    protocol: dict[str, Any] = field(default_factory=dict)
    evolve_row: Callable[[Row], Row] = dict
    """Converts a row of the previous version to this one."""
    queries: list[Query] = field(default_factory=list)
    violations: list[Row] = field(default_factory=list)
    """Rows that a writer must reject from this version on."""


def column(name: str, kind: Any, *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapped(fields: list[dict[str, Any]], ids: dict[str, tuple[int, str]]) -> list[dict[str, Any]]:
    """Return fields with column mapping ids and physical names, by logical path without list elements."""

    def one(item: dict[str, Any], above: str) -> dict[str, Any]:
        path = f"{above}{item['name']}"
        number, physical = ids[path]
        names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
        return item | {
            "type": inside(item["type"], f"{path}."),
            "metadata": item["metadata"] | names,
        }

    def inside(kind: Any, above: str) -> Any:
        if not isinstance(kind, dict):
            return kind
        if kind["type"] == "struct":
            return kind | {"fields": [one(item, above) for item in kind["fields"]]}
        return kind | {"elementType": inside(kind["elementType"], above)}

    return [one(item, "") for item in fields]


def without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}
