"""Columns as SQL declares them, in Spark's dialect: text to schema.

Knows the words of a column list and nothing of what expressions in it mean: those of defaults and
generated columns are kept as they are written, for whoever evaluates them. The text is untrusted;
its depth is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from lazydelta.errors import SchemaError
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

_MAX_DEPTH = 100
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>\w+)
      | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DECLARED_TEXT = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps the type that a column of texts was declared with."""
_IDENTITY = {
    "delta.identity.start": ("start", "with"),
    "delta.identity.step": ("increment", "by"),
}
"""What the numbers of an identity column begin with and go on by: its metadata, its words."""
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


def parse_columns(text: str) -> StructType:
    """Return the schema that a column list declares.

    >>> print(parse_columns("id bigint not null, tags array<string>, at struct<x: int, y: int>"))
    struct<id: long not null, tags: array<string>, at: struct<x: integer, y: integer>>

    Beside types it takes `NOT NULL`, `COMMENT 'text'`, `DEFAULT expression`, `GENERATED ALWAYS AS
    (expression)` and `GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(START WITH n INCREMENT BY n)]`.

    Raises:
        SchemaError: What the text has at which place that cannot be understood.
    """
    parser = _Parser(text)
    fields = parser.fields(closing="", inner=False)
    return StructType(tuple(fields))


def parse_column_type(text: str) -> DataType:
    """Return the type that the text names.

    >>> print(parse_column_type("map<string, decimal(10, 2)>"))
    map<string,decimal(10,2)>

    Raises:
        SchemaError: Not a type.
    """
    parser = _Parser(text)
    kind = parser.type()
    if parser.token.kind != "end":
        parser.fail("nothing more was expected")
    return kind


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    source: str
    start: int

    def says(self, word: str) -> bool:
        return self.kind in ("word", "sign") and self.source.lower() == word


class _Parser:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.tokens = [
            _Token(str(found.lastgroup), found[0], found.start())
            for found in _TOKEN.finditer(text)
            if found.lastgroup != "space"
        ]
        self.tokens.append(_Token("end", "", len(text)))

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *words: str) -> bool:
        """Pass these words if they are next."""
        following = self.tokens[self.at : self.at + len(words)]
        if len(following) < len(words) or not all(map(_Token.says, following, words)):
            return False
        self.at += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.fail(f"{word!r} was expected")

    def fail(self, reason: str) -> NoReturn:
        found = repr(self.token.source) if self.token.source else "the end"
        shown = self.text if len(self.text) <= 200 else self.text[:197] + "..."
        at = self.token.start + 1
        raise SchemaError(f"{reason}, not {found} at character {at} of {shown!r}")

    def fields(self, *, closing: str, inner: bool) -> list[StructField]:
        """Read fields up to the sign that closes them; of a struct if `inner`."""
        found: list[StructField] = []
        if closing and self.accept(closing):
            return found
        while True:
            found.append(self.field(inner=inner))
            if not self.accept(","):
                break
        if closing:
            self.expect(closing)
        elif self.token.kind != "end":
            self.fail("',' or the end was expected")
        return found

    def field(self, *, inner: bool) -> StructField:
        name = self.name()
        self.accept(":")
        limited = None if inner else self.limited_text()
        kind = self.type() if limited is None else PrimitiveType("string")
        nullable = True
        metadata: dict[str, Any] = {} if limited is None else {_DECLARED_TEXT: limited}
        while True:
            if self.accept("not", "null"):
                nullable = False
            elif self.accept("comment"):
                metadata["comment"] = self.string()
            elif not inner and self.accept("default"):
                metadata["CURRENT_DEFAULT"] = self.expression(name)
            elif not inner and self.accept("generated", "always", "as", "identity"):
                metadata |= self.identity(name, explicit=False)
            elif not inner and self.accept("generated", "by", "default", "as", "identity"):
                metadata |= self.identity(name, explicit=True)
            elif not inner and self.accept("generated", "always", "as"):
                metadata["delta.generationExpression"] = self.generation(name)
            else:
                return StructField(name, kind, nullable, metadata)

    def limited_text(self) -> str | None:
        """Return a type of texts of limited length, which is a string and a rule; else None."""
        word = self.token.source.lower()
        if word not in ("char", "varchar"):
            return None
        self.take()
        self.expect("(")
        length = self.number()
        self.expect(")")
        return f"{word}({length})"

    def name(self) -> str:
        if self.token.kind == "quoted":
            return self.take().source[1:-1].replace("``", "`")
        if self.token.kind != "word":
            self.fail("a column's name was expected")
        return self.take().source

    def type(self) -> DataType:
        if self.token.kind != "word":
            self.fail("a type was expected")
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise SchemaError(f"a type is nested more than {_MAX_DEPTH} deep")
        word = self.token.source.lower()
        match word:
            case "array" | "map" | "struct":
                self.take()
                self.expect("<")
                kind = getattr(self, f"_{word}")()
            case "decimal" | "dec" | "numeric":
                self.take()
                kind = self.decimal()
            case _ if word in _TYPES:
                self.take()
                kind = PrimitiveType(_TYPES[word])
            case _:
                self.fail("a type was expected")
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
        return StructType(tuple(self.fields(closing=">", inner=True)))

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
            self.fail("a number was expected")
        return int(self.take().source)

    def string(self) -> str:
        if self.token.kind != "string":
            self.fail("a text in quotes was expected")
        source = self.take().source
        body = source[1:-1].replace(source[0] * 2, source[0])
        return re.sub(r"\\(.)", r"\1", body, flags=re.DOTALL)

    def generation(self, column: str) -> str:
        if not self.token.says("("):
            self.fail("'(' was expected")
        text = self.expression(column, in_parentheses=True)
        return text.removeprefix("(").removesuffix(")").strip()

    def identity(self, column: str, *, explicit: bool) -> dict[str, Any]:
        """Read how a column numbers rows; both parts may be left out, or stand the other way."""
        found: dict[str, Any] = {}
        if self.accept("("):
            while not self.accept(")"):
                for key, words in _IDENTITY.items():
                    if key not in found and self.accept(*words):
                        found[key] = self.long()
                        break
                else:
                    self.fail("START WITH, INCREMENT BY or ')' was expected")
        if found.get("delta.identity.step") == 0:
            raise SchemaError(f"column {column!r}: numbers cannot go on by 0")
        said = {key: found.get(key, 1) for key in _IDENTITY}
        return {**said, "delta.identity.allowExplicitInsert": explicit}

    def long(self) -> int:
        """Read a whole number of 64 bits, with or without a minus."""
        sign = -1 if self.accept("-") else 1
        if not re.fullmatch(r"[0-9]{1,19}", self.token.source):
            self.fail("a whole number was expected")
        value = sign * int(self.token.source)
        if not -(2**63) <= value < 2**63:
            self.fail("a whole number of 64 bits was expected")
        self.take()
        return value

    def expression(self, column: str, *, in_parentheses: bool = False) -> str:
        """Return the text up to the end of the column, or of the parentheses it begins with."""
        start, depth, end = self.token.start, 0, self.token.start
        while self.token.kind != "end":
            closed = end > start if in_parentheses else self._ends_expression()
            if depth == 0 and closed:
                break
            depth += self.token.says("(") - self.token.says(")")
            token = self.take()
            end = token.start + len(token.source)
        if depth != 0 or end == start:
            raise SchemaError(f"column {column!r}: its expression {self.text[start:end]!r} is torn")
        return self.text[start:end]

    def _ends_expression(self) -> bool:
        following = [token.source.lower() for token in self.tokens[self.at : self.at + 2]]
        return following[0] in (",", "comment", "generated") or following == ["not", "null"]
