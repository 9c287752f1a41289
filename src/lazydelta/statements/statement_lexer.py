"""Tokens of SQL statements, to split them into parts.

Two dialects: a statement has the strings of Spark, with backslash escapes; a query has those of the
engine that runs it. What operators and numbers mean is left to the parser of the part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

from lazydelta.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Dialect", "Token", "fail_at", "next_token", "tokens"]

Dialect = Literal["spark", "engine"]

_COMMON = r"""
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<open>['"`]|/\*)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[A-Za-z]{0,2}(?!\w))
    | (?P<word>\w+)
    | (?P<sign>.)
"""
_SPACE = r"(?P<space>\s+|--[^\n]*|/\*.*?\*/)"
_SPARK = r"""
    | (?P<string>[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
"""
_ENGINE = r"""
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>[^\W\d]*)\$.*?\$(?P=tag)\$)
    | (?P<identifier>"(?:[^"]|"")*")
"""
_PATTERNS: dict[Dialect, re.Pattern[str]] = {
    "spark": re.compile(_SPACE + _SPARK + _COMMON, re.VERBOSE | re.DOTALL),
    "engine": re.compile(_SPACE + _ENGINE + _COMMON, re.VERBOSE | re.DOTALL),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token; the last one of a statement is of kind `end`."""

    kind: str
    source: str
    start: int

    @property
    def end(self) -> int:
        """The position after it."""
        return self.start + len(self.source)

    @property
    def is_name(self) -> bool:
        """Whether it can be the name of a table or column."""
        return self.kind in ("word", "quoted", "identifier")

    @property
    def is_field_name(self) -> bool:
        """Whether it can be a name after a dot."""
        return self.is_name or (self.kind == "string" and self.source.startswith('"'))

    @property
    def name(self) -> str:
        """The name without quotes."""
        if self.kind not in ("quoted", "identifier", "string"):
            return self.source
        quote = self.source[0]
        return self.source[1:-1].replace(quote * 2, quote)

    @property
    def text(self) -> str:
        """The content of a string of Spark, without quotes and escapes."""
        if self.source[0] in "rR":
            return self.source[2:-1]
        quote = self.source[0]
        escaped = rf"\\(.)|{quote}({quote})"
        return re.sub(escaped, r"\1\2", self.source[1:-1], flags=re.DOTALL)

    def says(self, *words: str) -> bool:
        """Whether this is one of these keywords or signs."""
        return self.kind in ("word", "sign") and self.source.lower() in words


def next_token(sql: str, position: int, dialect: Dialect) -> Token:
    """Return the first token at or after a position.

    Raises:
        QueryError: A string, quoted name or comment has no end.
    """
    while match := _PATTERNS[dialect].match(sql, position):
        kind = str(match.lastgroup)
        if kind != "space":
            token = Token(kind, match[0], position)
            if kind == "open":
                fail_at(sql, token, f"{token.source} at character {position + 1} is not closed")
            return token
        position = match.end()
    return Token("end", "", len(sql))


def tokens(sql: str, dialect: Dialect, start: int = 0) -> Iterator[Token]:
    """Yield the tokens from a position on, without the end."""
    while (token := next_token(sql, start, dialect)).kind != "end":
        yield token
        start = token.end


def fail_at(sql: str, token: Token, reason: str) -> NoReturn:
    """Raise a `QueryError` that shows the place of a token."""
    start = max(token.start - 60, 0)
    line = re.sub(r"\s", " ", sql[start : token.start + 40])
    caret = " " * (token.start - start) + "^"
    shown = sql if len(sql) <= 200 else sql[:197] + "..."
    raise QueryError(shown, "lazydelta", f"{reason}\n  {line}\n  {caret}")
