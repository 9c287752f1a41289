"""SQL text to tokens: names, constants and signs, each with its place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes import Literal
from lazydelta.schema import DataType, DecimalType, PrimitiveType

__all__ = ["Token", "number_literal", "tokenize"]

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<binary>[xX]'[0-9a-fA-F]*')
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[lLdDfFsSyY]|[bB][dD])?(?!\w))
      | (?P<word>[^\W\d]\w*|\d+[A-Za-z_]\w*)
      | (?P<sign><=>|<=|>=|<>|!=|==|\|\||[-+*/%=<>(),.!])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "b": "\b",
    "0": "\0",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_NUMBER = re.compile(r"(.*?)([lLdDfFsSyY]|[bB][dD])?")
_INTEGER_SUFFIXES = {"": "long", "L": "long", "S": "short", "Y": "byte"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; `value` is its content with quotes and escapes undone."""

    kind: str
    source: str
    start: int
    value: Any = None

    def says(self, word: str) -> bool:
        """Whether this is that keyword or sign."""
        return self.kind in ("word", "sign") and self.source.lower() == word


def tokenize(text: str, *, limit: int) -> list[Token]:
    """Split the text; the last token is of kind `end`.

    Raises:
        PredicateError: A character or a quote that begins nothing, or more than `limit` tokens.
    """
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            shown = text if len(text) <= 200 else text[:197] + "..."
            raise PredicateError(shown, f"cannot read {text[at : at + 12]!r} at character {at + 1}")
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(_token(kind, match[0], at))
        if len(tokens) > limit:
            raise PredicateError(
                text[:200] + "...",
                f"it has more than {limit} parts; give many values as col(...).isin([...])",
            )
        at = match.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


def number_literal(source: str) -> Literal | None:
    """Return the constant a number spells; None if its type cannot hold it.

    As in Spark, a point makes a decimal, an exponent a double and a suffix says the type.
    """
    match = _NUMBER.fullmatch(source)
    digits, suffix = (match[1], (match[2] or "").upper()) if match else (source, "")
    if suffix in ("D", "F") or (not suffix and "e" in digits.lower()):
        return Literal(float(digits), PrimitiveType("float" if suffix == "F" else "double"))
    if suffix in _INTEGER_SUFFIXES and digits.isdecimal():
        value = int(digits) if len(digits) <= 38 else None
        return None if value is None else Literal(value, PrimitiveType(_INTEGER_SUFFIXES[suffix]))
    if suffix not in ("", "BD"):
        return None
    number = Decimal(digits)
    _, figures, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(figures) + max(int(exponent), 0), scale, 1)
    kind: DataType = DecimalType(precision, scale)
    return Literal(number, kind) if precision <= 38 else None


def _token(kind: str, source: str, start: int) -> Token:
    match kind:
        case "string":
            body = source[1:-1].replace(source[0] * 2, source[0])
            return Token(
                "string", source, start, _joined_pairs(_ESCAPE.sub(_unescape, body), start)
            )
        case "raw":
            return Token("string", source, start, source[2:-1])
        case "binary":
            digits = source[2:-1]
            return Token("binary", source, start, bytes.fromhex("0" * (len(digits) % 2) + digits))
        case "quoted":
            return Token("quoted", source, start, source[1:-1].replace("``", "`"))
        case _:
            return Token(kind, source, start, source)


def _unescape(found: re.Match[str]) -> str:
    if found[1] or found[2]:
        code = int(found[1] or found[2], 16)
        return chr(code) if code < 0x110000 else found[0]
    if found[3]:
        return chr(int(found[3], 8))
    return _ESCAPED.get(found[4], found[4])


def _joined_pairs(text: str, start: int) -> str:
    """Join surrogate pairs, which escapes may spell; a lone half is no character."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        reason = f"half a surrogate pair in the string at character {start + 1}"
        raise PredicateError(ascii(text), reason) from None
