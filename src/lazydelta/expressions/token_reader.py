"""Read the tokens of an expression one by one, and the names of types; the base of the parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from lazydelta.errors import PredicateError
from lazydelta.expressions.tokens import tokenize
from lazydelta.schema import DecimalType, PrimitiveType

if TYPE_CHECKING:
    from lazydelta.expressions.tokens import Token
    from lazydelta.schema import DataType

__all__ = ["MAX_DEPTH", "MAX_NODES", "TokenReader"]

MAX_DEPTH = 64
"""Deepest nesting of an expression."""
MAX_NODES = 10_000
"""Most tokens of an expression."""
_TYPE_NAMES = {
    "bool": "boolean",
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "timestamp_ltz": "timestamp",
    **{
        name: name
        for name in (
            "boolean",
            "byte",
            "short",
            "integer",
            "long",
            "float",
            "double",
            "string",
            "binary",
            "date",
            "timestamp",
            "timestamp_ntz",
        )
    },
}


class TokenReader:
    """A position in the tokens of an expression."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = tokenize(sql, limit=MAX_NODES)
        self.position = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """Consume the next token."""
        token = self.tokens[self.position]
        self.position += token.kind != "end"
        return token

    def accept(self, *words: str) -> bool:
        """Consume these keywords or operators if they come next, in order."""
        for index, word in enumerate(words, self.position):
            if index >= len(self.tokens) or not self.tokens[index].says(word):
                return False
        self.position += len(words)
        return True

    def expect(self, word: str) -> None:
        """Consume a keyword or operator, which must come next."""
        if not self.accept(word):
            self.fail(f"expected {word.upper()!r}")

    def expect_end(self) -> None:
        """Fail unless all tokens are consumed."""
        if self.token.kind != "end":
            self.fail("expected the end")

    def fail(self, reason: str) -> NoReturn:
        """Raise an error that shows the position."""
        shown = "the end" if self.token.kind == "end" else repr(self.token.source)
        start = max(self.token.start - 60, 0)
        line = self.sql[start : self.token.start + 40].replace("\n", " ")
        caret = " " * (self.token.start - start) + "^"
        raise PredicateError(
            self.sql if len(self.sql) <= 200 else self.sql[:197] + "...",
            f"{reason}, but found {shown} at character {self.token.start + 1}\n  {line}\n  {caret}",
        )

    def deeper(self) -> None:
        """Count a level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested more than {MAX_DEPTH} deep")

    def type(self) -> DataType:
        """Parse the name of a type."""
        name = self.take().source.lower()
        if name in ("decimal", "dec", "numeric"):
            precision, scale = 10, 0
            if self.accept("("):
                precision = self.small_number()
                scale = self.small_number() if self.accept(",") else 0
                self.expect(")")
            if not (1 <= precision <= 38 and 0 <= scale <= precision):
                self.fail("a decimal has at most 38 digits")
            return DecimalType(precision, scale)
        if name not in _TYPE_NAMES:
            self.position -= 1
            self.fail("expected a type")
        return PrimitiveType(_TYPE_NAMES[name])

    def small_number(self) -> int:
        """Parse a number of at most four digits."""
        if self.token.kind != "number" or not self.token.source.isdecimal():
            self.fail("expected a number")
        return int(self.take().source[:4])
