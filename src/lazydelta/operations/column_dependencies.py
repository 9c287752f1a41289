"""Who uses a column: what a table says about its columns by their names. Pure.

Expressions are searched for names as text, so that one that lazydelta cannot evaluate is found as
well. A name that is only a function's, or stands in a string, does not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta.writer import CONSTRAINT, all_fields, statistics_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.operations.table_draft import Draft
    from lazydelta.schema import StructType

__all__ = ["check_statistics_columns", "named_columns", "users_of"]

_STATS_COLUMNS = "delta.dataSkippingStatsColumns"
_EXPRESSIONS = {
    "delta.generationExpression": "generation expression",
    "delta.invariants": "invariant",
}
_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_PART = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_NAME = re.compile(rf"({_PART}(?:\s*\.\s*{_PART})*)\s*(\()?")


def named_columns(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the paths that a text names, in lower case.

    >>> list(named_columns("year(At) = `the year` AND a.b > 'c'"))
    [('at',), ('the year',), ('and',), ('a', 'b')]
    """
    for found in _NAME.finditer(_STRING.sub("''", text)):
        if found[2] is None:
            parts = re.findall(_PART, found[1])
            yield tuple(part.strip("`").replace("``", "`").lower() for part in parts)


def check_statistics_columns(schema: StructType, configuration: Mapping[str, str]) -> None:
    """Refuse a choice of columns to have statistics of that names one that is not there.

    Raises:
        ColumnNotFoundError: With near matches.
        SchemaError: It is no list of columns, and no write could follow it.
    """
    for path in statistics_columns(configuration.get(_STATS_COLUMNS, "")):
        schema.find(path)


def users_of(draft: Draft, path: Sequence[str], *, with_statistics: bool = True) -> list[str]:
    """Return what names a column, or a part of it: constraints, expressions, properties."""
    wanted = tuple(part.lower() for part in path)
    found = [
        f"the constraint {key.removeprefix(CONSTRAINT)!r}"
        for key, text in sorted(draft.configuration.items())
        if key.startswith(CONSTRAINT) and _names(text, wanted)
    ]
    for at, item in all_fields(draft.schema):
        found += [
            f"the {what} of column {'.'.join(at)!r}"
            for key, what in _EXPRESSIONS.items()
            if _names(_expression(item.metadata.get(key)), wanted)
        ]
    indexed = draft.configuration.get(_STATS_COLUMNS, "") if with_statistics else ""
    if any(_meets(path, wanted) for path in statistics_columns(indexed.lower())):
        found.append(f"the property {_STATS_COLUMNS}")
    return found


def _expression(value: object) -> str:
    return value if isinstance(value, str) else ""


def _names(text: str, wanted: tuple[str, ...]) -> bool:
    return any(_meets(named, wanted) for named in named_columns(text))


def _meets(named: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether one path is, or leads to, the other."""
    return named[: len(wanted)] == wanted or wanted[: len(named)] == named
