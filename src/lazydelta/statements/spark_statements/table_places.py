"""Where a query names tables: after FROM and JOIN, also in its subqueries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.statements.statement_lexer import Token, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["QueryTable", "common_tables", "query_tables"]

_ENDS = (
    *("where", "group", "order", "having", "limit", "window", "union", "except", "intersect"),
    *("minus", "cluster", "distribute", "sort", "qualify", "offset"),
)
_NO_TABLE = ("select", "lateral", "values", "table", "stream")
_NO_ALIAS = (
    *_ENDS, *_NO_TABLE, "on", "using", "join", "inner", "left", "right", "full", "cross",
    "natural", "semi", "anti", "outer", "tablesample", "pivot", "unpivot", "version", "timestamp",
    "for", "from", "set", "when",
)  # fmt: skip
_TIMES = {"version": "version", "system_version": "version"} | dict.fromkeys(
    ("timestamp", "system_time"), "timestamp"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTable:
    """A table of a query, and its place in the SQL."""

    parts: tuple[str, ...]
    start: int
    end: int
    version: str | None = None
    """Of `VERSION AS OF`."""
    timestamp: str | None = None
    """Of `TIMESTAMP AS OF`."""
    has_alias: bool = False

    @property
    def path(self) -> str | None:
        """The address in `` delta.`path` ``."""
        is_path = len(self.parts) == 2 and self.parts[0].lower() in ("delta", "lazydelta")
        return self.parts[1] if is_path else None


@dataclass(slots=True)
class _Level:
    """What is known inside one pair of parentheses."""

    is_query: bool
    in_from: bool = False
    expects_table: bool = False


def query_tables(sql: str) -> Iterator[QueryTable]:
    """Yield the tables that a query of Spark names.

    >>> [table.parts for table in query_tables("select * from a.b join `c` using (id)")]
    [('a', 'b'), ('c',)]
    """
    found = list(tokens(sql, "spark"))
    levels = [_Level(is_query=True)]
    index = 0
    while index < len(found):
        token, level = found[index], levels[-1]
        if level.expects_table and token.is_name and not token.says(*_NO_TABLE):
            level.expects_table = False
            table, index = _table(found, index)
            if table is not None:
                yield table
            continue
        _step(token, found[index - 1] if index else None, levels)
        index += 1


def _step(token: Token, before: Token | None, levels: list[_Level]) -> None:
    level = levels[-1]
    if token.says("("):
        levels.append(_Level(is_query=False, expects_table=level.expects_table))
        levels[-1].in_from = level.expects_table
        level.expects_table = False
    elif token.says(")") and len(levels) > 1:
        levels.pop()
    elif token.says("select", "with"):
        level.is_query, level.in_from, level.expects_table = True, False, False
    elif token.says("from") and _is_clause(level, before):
        level.in_from = level.expects_table = True
    elif token.says("join") and level.in_from:
        level.expects_table = True
    elif token.says(","):
        level.expects_table = level.in_from
    elif token.says(*_ENDS):
        level.in_from = level.expects_table = False
    else:
        level.expects_table = False


def _is_clause(level: _Level, before: Token | None) -> bool:
    """Whether FROM starts a clause: not in `extract(year FROM day)` or `IS DISTINCT FROM`."""
    if before is None or before.says("("):
        return True
    return level.is_query and not before.says("distinct")


def _table(found: Sequence[Token], index: int) -> tuple[QueryTable | None, int]:
    """Return the table at a token, and the index of the token after it."""
    start, parts = found[index].start, [found[index].name]
    index += 1
    while _says(found, index, ".") and index + 1 < len(found) and found[index + 1].is_name:
        parts.append(found[index + 1].name)
        index += 2
    if _says(found, index, "("):
        return None, index  # a table function
    end, pins = found[index - 1].end, {}
    at = index + _says(found, index, "for")
    kind = _TIMES.get(found[at].source.lower()) if at < len(found) else None
    if kind and _says(found, at + 1, "as") and _says(found, at + 2, "of") and at + 3 < len(found):
        value = found[at + 3]
        pins = {kind: value.text if value.kind == "string" else value.source}
        index, end = at + 4, value.end
    alias = index < len(found) and found[index].is_name and not found[index].says(*_NO_ALIAS)
    table = QueryTable(parts=tuple(parts), start=start, end=end, has_alias=alias, **pins)
    return table, index


def _says(found: Sequence[Token], index: int, word: str) -> bool:
    return index < len(found) and found[index].says(word)


def common_tables(sql: str) -> set[str]:
    """Return the names that the query itself defines: `WITH name [(columns)] AS (query)`."""
    found = list(tokens(sql, "spark"))
    names = set()
    for index, token in enumerate(found):
        if not (token.says("as") and _says(found, index + 1, "(")) or not index:
            continue
        at = index - 1
        if found[at].says(")"):
            while at and not found[at].says("("):
                at -= 1
            at -= 1
        names.add(found[at].name.lower())
    return names
