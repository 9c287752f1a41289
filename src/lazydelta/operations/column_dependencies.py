"""Dependencies on a column: constraints, expressions and properties that name it. Pure.

SQL is searched for names with regular expressions, so that expressions that lazydelta cannot
parse are covered too. Function names and string literals do not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta.writer.files import statistics_columns
from lazydelta.writer.properties import CONSTRAINT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.operations.table_draft import TableDraft
    from lazydelta.schema import StructType

__all__ = ["check_statistics_columns", "dependents_of", "named_columns"]

_STATS_COLUMNS = "delta.dataSkippingStatsColumns"
_EXPRESSIONS = {
    "delta.generationExpression": "generation expression",
    "delta.invariants": "invariant",
}
_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_PART = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_NAME = re.compile(rf"({_PART}(?:\s*\.\s*{_PART})*)\s*(\()?")


def named_columns(sql: str) -> Iterator[tuple[str, ...]]:
    """Yield the paths in a SQL expression, in lower case; keywords count as names.

    >>> list(named_columns("year(At) = `the year` AND a.b > 'c'"))
    [('at',), ('the year',), ('and',), ('a', 'b')]
    """
    for match in _NAME.finditer(_STRING.sub("''", sql)):
        if match[2] is None:
            parts = re.findall(_PART, match[1])
            yield tuple(part.strip("`").replace("``", "`").lower() for part in parts)


def check_statistics_columns(schema: StructType, configuration: Mapping[str, str]) -> None:
    """Validate `delta.dataSkippingStatsColumns` against a schema.

    Raises:
        ColumnNotFoundError: The schema does not have a column.
        SchemaError: The value is not a list of columns.
    """
    for path in statistics_columns(configuration.get(_STATS_COLUMNS, "")):
        schema.find(path)


def dependents_of(
    draft: TableDraft, path: Sequence[str], *, with_statistics: bool = True
) -> list[str]:
    """Return descriptions of all that depends on a column or a field inside it."""
    column = tuple(part.lower() for part in path)
    dependents = [
        f"the constraint {key.removeprefix(CONSTRAINT_PREFIX)!r}"
        for key, sql in sorted(draft.configuration.items())
        if key.startswith(CONSTRAINT_PREFIX) and _uses(sql, column)
    ]
    for owner, field in draft.schema.all_fields():
        dependents += [
            f"the {what} of column {'.'.join(owner)!r}"
            for key, what in _EXPRESSIONS.items()
            if _uses(_expression(field.metadata.get(key)), column)
        ]
    indexed = draft.configuration.get(_STATS_COLUMNS, "") if with_statistics else ""
    if any(_overlap(path, column) for path in statistics_columns(indexed.lower())):
        dependents.append(f"the property {_STATS_COLUMNS}")
    return dependents


def _expression(value: object) -> str:
    return value if isinstance(value, str) else ""


def _uses(sql: str, column: tuple[str, ...]) -> bool:
    return any(_overlap(named, column) for named in named_columns(sql))


def _overlap(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether one path is a prefix of the other."""
    return left[: len(right)] == right or right[: len(left)] == left
