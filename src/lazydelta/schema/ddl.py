"""Parse column definitions of Spark SQL DDL.

Expressions of defaults and generated columns are stored as SQL, unparsed. The SQL is untrusted;
its nesting depth is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from lazydelta.errors import SchemaError
from lazydelta.schema import tuning
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

__all__ = ["parse_column_type", "parse_columns"]

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>\w+)
      | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CHAR_VARCHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key under which Spark stores the declared `char(n)` or `varchar(n)` type."""
_IDENTITY_OPTIONS = {
    "delta.identity.start": ("start", "with"),
    "delta.identity.step": ("increment", "by"),
}
"""Metadata key and keywords of each option of an identity column."""
_TYPES = {
    "bool": "boolean",
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "real": "float",
    "float": "float",
    "double": "double",
    "string": "string",
    "text": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "variant": "variant",
    "void": "void",
}


def parse_columns(ddl: str) -> StructType:
    """Parse a list of column definitions.

    >>> print(parse_columns("id bigint not null, tags array<string>, at struct<x: int, y: int>"))
    struct<id: long not null, tags: array<string>, at: struct<x: integer, y: integer>>

    Supports `NOT NULL`, `COMMENT 'string'`, `DEFAULT expression`, `GENERATED ALWAYS AS
    (expression)` and `GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(START WITH n INCREMENT BY n)]`.

    Raises:
        SchemaError: A syntax error; the message gives the unexpected token and its position.
    """
    parser = _Parser(ddl)
    fields = parser.fields(closing="", nested=False)
    return StructType(tuple(fields))


def parse_column_type(ddl: str) -> DataType:
    """Parse a type.

    >>> print(parse_column_type("map<string, decimal(10, 2)>"))
    map<string,decimal(10,2)>

    Raises:
        SchemaError: Not a type.
    """
    parser = _Parser(ddl)
    kind = parser.type()
    if parser.token.kind != "end":
        parser.fail("expected the end")
    return kind


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    source: str
    start: int

    def matches(self, word: str) -> bool:
        return self.kind in ("word", "symbol") and self.source.lower() == word


class _Parser:
    """Recursive-descent parser of one DDL string."""

    def __init__(self, ddl: str) -> None:
        self.ddl = ddl
        self.position = 0
        self.depth = 0
        self.tokens = [
            _Token(str(match.lastgroup), match[0], match.start())
            for match in _TOKEN.finditer(ddl)
            if match.lastgroup != "space"
        ]
        self.tokens.append(_Token("end", "", len(ddl)))

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def advance(self) -> _Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def accept(self, *words: str) -> bool:
        """Consume these words if they are next."""
        following = self.tokens[self.position : self.position + len(words)]
        if len(following) < len(words) or not all(map(_Token.matches, following, words)):
            return False
        self.position += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.fail(f"expected {word!r}")

    def fail(self, reason: str) -> NoReturn:
        token = repr(self.token.source) if self.token.source else "the end"
        excerpt = self.ddl if len(self.ddl) <= 200 else self.ddl[:197] + "..."
        character = self.token.start + 1
        raise SchemaError(f"{reason}, not {token} at character {character} of {excerpt!r}")

    def fields(self, *, closing: str, nested: bool) -> list[StructField]:
        """Parse fields up to the closing symbol; `nested` for the fields of a struct."""
        fields: list[StructField] = []
        if closing and self.accept(closing):
            return fields
        while True:
            fields.append(self.field(nested=nested))
            if not self.accept(","):
                break
        if closing:
            self.expect(closing)
        elif self.token.kind != "end":
            self.fail("expected ',' or the end")
        return fields

    def field(self, *, nested: bool) -> StructField:
        name = self.name()
        self.accept(":")
        declared = None if nested else self.char_or_varchar()
        kind = self.type() if declared is None else PrimitiveType("string")
        nullable = True
        metadata: dict[str, Any] = {} if declared is None else {_CHAR_VARCHAR_TYPE: declared}
        while True:
            if self.accept("not", "null"):
                nullable = False
            elif self.accept("comment"):
                metadata["comment"] = self.string()
            elif not nested and self.accept("default"):
                metadata["CURRENT_DEFAULT"] = self.expression(name)
            elif not nested and self.accept("generated", "always", "as", "identity"):
                metadata |= self.identity(name, explicit=False)
            elif not nested and self.accept("generated", "by", "default", "as", "identity"):
                metadata |= self.identity(name, explicit=True)
            elif not nested and self.accept("generated", "always", "as"):
                metadata["delta.generationExpression"] = self.generation(name)
            else:
                return StructField(name, kind, nullable, metadata)

    def char_or_varchar(self) -> str | None:
        """Parse `char(n)` or `varchar(n)`; None for any other type."""
        word = self.token.source.lower()
        if word not in ("char", "varchar"):
            return None
        self.advance()
        self.expect("(")
        length = self.number()
        self.expect(")")
        return f"{word}({length})"

    def name(self) -> str:
        if self.token.kind == "quoted":
            return self.advance().source[1:-1].replace("``", "`")
        if self.token.kind != "word":
            self.fail("expected a column name")
        return self.advance().source

    def type(self) -> DataType:
        if self.token.kind != "word":
            self.fail("expected a type")
        self.depth += 1
        if self.depth > tuning.MAX_DEPTH:
            raise SchemaError(f"a type is nested more than {tuning.MAX_DEPTH} deep")
        word = self.token.source.lower()
        match word:
            case "array" | "map" | "struct":
                self.advance()
                self.expect("<")
                kind = getattr(self, f"_{word}")()
            case "decimal" | "dec" | "numeric":
                self.advance()
                kind = self.decimal()
            case _ if word in _TYPES:
                self.advance()
                kind = PrimitiveType(_TYPES[word])
            case _:
                self.fail("expected a type")
        self.depth -= 1
        return kind

    def _array(self) -> DataType:
        element = self.type()
        self.expect(">")
        return ArrayType(element)

    def _map(self) -> DataType:
        key = self.type()
        self.expect(",")
        value = self.type()
        self.expect(">")
        return MapType(key, value)

    def _struct(self) -> DataType:
        return StructType(tuple(self.fields(closing=">", nested=True)))

    def decimal(self) -> DataType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.number()
            scale = self.number() if self.accept(",") else 0
            self.expect(")")
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise SchemaError(f"decimal({precision},{scale}) is out of range (38 digits at most)")
        return DecimalType(precision, scale)

    def number(self) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", self.token.source):
            self.fail("expected a number")
        return int(self.advance().source)

    def string(self) -> str:
        if self.token.kind != "string":
            self.fail("expected a quoted string")
        source = self.advance().source
        body = source[1:-1].replace(source[0] * 2, source[0])
        return re.sub(r"\\(.)", r"\1", body, flags=re.DOTALL)

    def generation(self, column: str) -> str:
        if not self.token.matches("("):
            self.fail("expected '('")
        sql = self.expression(column, in_parentheses=True)
        return sql.removeprefix("(").removesuffix(")").strip()

    def identity(self, column: str, *, explicit: bool) -> dict[str, Any]:
        """Parse the options of an identity column: optional, in either order."""
        options: dict[str, Any] = {}
        if self.accept("("):
            while not self.accept(")"):
                for key, keywords in _IDENTITY_OPTIONS.items():
                    if key not in options and self.accept(*keywords):
                        options[key] = self.long()
                        break
                else:
                    self.fail("expected START WITH, INCREMENT BY or ')'")
        if options.get("delta.identity.step") == 0:
            raise SchemaError(f"column {column!r}: an identity column cannot INCREMENT BY 0")
        metadata = {key: options.get(key, 1) for key in _IDENTITY_OPTIONS}
        return {**metadata, "delta.identity.allowExplicitInsert": explicit}

    def long(self) -> int:
        """Parse a signed 64-bit integer."""
        sign = -1 if self.accept("-") else 1
        if not re.fullmatch(r"[0-9]{1,19}", self.token.source):
            self.fail("expected an integer")
        value = sign * int(self.token.source)
        if not -(2**63) <= value < 2**63:
            self.fail("expected a 64-bit integer")
        self.advance()
        return value

    def expression(self, column: str, *, in_parentheses: bool = False) -> str:
        """Return the SQL up to the end of the column, or up to the matching parenthesis."""
        start, depth, end = self.token.start, 0, self.token.start
        while self.token.kind != "end":
            closed = end > start if in_parentheses else self._ends_expression()
            if depth == 0 and closed:
                break
            depth += self.token.matches("(") - self.token.matches(")")
            token = self.advance()
            end = token.start + len(token.source)
        if depth != 0 or end == start:
            raise SchemaError(
                f"column {column!r}: expression {self.ddl[start:end]!r} is incomplete"
            )
        return self.ddl[start:end]

    def _ends_expression(self) -> bool:
        following = [
            token.source.lower() for token in self.tokens[self.position : self.position + 2]
        ]
        return following[0] in (",", "comment", "generated") or following == ["not", "null"]
