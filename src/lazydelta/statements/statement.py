"""SQL statements as values: their parts, with expressions and queries as SQL.

Nothing is resolved: a table is a name or an address, a column a path of names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Assignment",
    "Clause",
    "Delete",
    "Insert",
    "Merge",
    "Query",
    "Statement",
    "Subquery",
    "TableName",
    "Update",
    "is_default",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table in a statement: `trips`, `` `./trips` `` or `` delta.`./trips` ``."""

    name: str | None
    """The name to look up; None for `` delta.`...` ``, which is always an address."""
    address: str | None = None
    """The path or URL in backticks, for a name that is not registered."""
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subquery:
    """A query in parentheses, in the dialect of the engine."""

    sql: str
    alias: str | None = None
    columns: tuple[str, ...] | None = None
    """New names of its columns; None keeps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """`column = expression`; the expression is SQL, or the keyword DEFAULT."""

    column: tuple[str, ...]
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A statement that returns rows."""

    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """`DELETE FROM table WHERE condition`."""

    target: TableName
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`UPDATE table SET column = expression, ... WHERE condition`."""

    target: TableName
    assignments: tuple[Assignment, ...]
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`INSERT INTO | OVERWRITE table [PARTITION (...)] [(columns)] VALUES ...`, or with a query."""

    target: TableName
    columns: tuple[str, ...] | None = None
    """In the order of the values; None means all columns of the table."""
    by_name: bool = False
    """Whether columns of the query are matched by name, not by position."""
    overwrite: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Literals of PARTITION by column; None where the rows have the values."""
    replace_where: str | None = None
    """Condition of REPLACE WHERE."""
    rows: tuple[tuple[str, ...], ...] = ()
    query: str | None = None

    @property
    def static_partition(self) -> dict[str, str]:
        """The literals of PARTITION, by column."""
        return {name: value for name, value in self.partition.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A WHEN clause of MERGE."""

    kind: Literal["matched", "not_matched", "not_matched_by_source"]
    action: Literal["update", "delete", "insert"]
    condition: str | None = None
    assignments: tuple[Assignment, ...] | None = None
    """Of an update or insert; None means `*`."""

    @property
    def given(self) -> list[Assignment]:
        """The assignments; an insert leaves a DEFAULT to the enforcement."""
        is_insert = self.action == "insert"
        parts = self.assignments or ()
        return [part for part in parts if not (is_insert and is_default(part.expression))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """`MERGE INTO table USING source ON condition WHEN ...`."""

    target: TableName
    source: TableName | Subquery
    on: str
    clauses: tuple[Clause, ...]
    merge_schema: bool = False
    """Whether the statement has WITH SCHEMA EVOLUTION."""


def is_default(expression: str) -> bool:
    """Whether an expression is the keyword DEFAULT."""
    return expression.strip().lower() == "default"


Statement = Query | Delete | Update | Insert | Merge
