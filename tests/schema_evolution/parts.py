"""What the rungs of the schema ladder are made of: files, questions, and fields of a schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

__all__ = ["Ask", "File", "Row", "Rung", "array", "column", "mapped", "struct", "without"]

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class File:
    """A data file: what is in it, and which rows of the table that is."""

    name: str
    schema: pa.Schema
    """As the file has it: physical names, and no partition column."""
    stored: list[Row]
    """As the file has it."""
    rows: list[Row]
    """As the version that adds it shows them."""
    partition: dict[str, str | None]
    """As the log has it: text, by physical name."""
    deleted: tuple[int, ...] = ()
    """Positions of rows that a vector hides."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question to a version: the files that may hold an answer, and the rows that do."""

    where: str
    files: set[str]
    test: Callable[[Row], bool | None]
    """Whether a row of that version matches; None as SQL has it, which is no match."""


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One version of the table."""

    name: str
    fields: list[dict[str, Any]]
    """The table's schema, as `metaData.schemaString` has its fields."""
    files: list[File] = field(default_factory=list)
    replaced: tuple[str, ...] = ()
    """Files that it removes, or adds again with a vector."""
    configuration: dict[str, str] = field(default_factory=dict)
    """All table properties from here on."""
    protocol: dict[str, Any] = field(default_factory=dict)
    seen_from_here: Callable[[Row], Row] = dict
    """How a row of the version below looks at this one."""
    asks: list[Ask] = field(default_factory=list)
    violations: list[Row] = field(default_factory=list)
    """Rows that a writer must refuse from here on."""


def column(name: str, kind: Any, *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapped(fields: list[dict[str, Any]], ids: dict[str, tuple[int, str]]) -> list[dict[str, Any]]:
    """Return fields with ids and physical names, by logical path; lists add nothing to a path."""

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


def without(given: Row, *names: str) -> Row:
    return {name: value for name, value in given.items() if name not in names}
