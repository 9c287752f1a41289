"""SQL tokenizer: identifiers, literals and operators, each with its position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes.value_nodes import Literal
from lazydelta.schema import DecimalType, PrimitiveType
from lazydelta.schema.values import INTEGER_RANGES

__all__ = ["Token", "number_literal", "tokenize"]

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<binary>[xX]'[0-9a-fA-F]*')
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[lLdDfFsSyY]|[bB][dD])?(?!\w))
      | (?P<word>[^\W\d]\w*|\d+[A-Za-z_]\w*)
      | (?P<sign><=>|<=|>=|<>|!=|==|::|\|\||[-+*/%=<>(),.!\[\]])
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
_INTEGER_SUFFIXES = {"L": "long", "S": "short", "Y": "byte"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `value` is its content without quotes and escapes."""

    kind: str
    source: str
    start: int
    value: Any = None

    @property
    def is_double_quoted(self) -> bool:
        """Whether it is a string in double quotes: after a dot that is a name."""
        return self.kind == "string" and self.source.startswith('"')

    def says(self, word: str) -> bool:
        """Whether this is that keyword or operator."""
        return self.kind in ("word", "sign") and self.source.lower() == word


def tokenize(sql: str, *, limit: int) -> list[Token]:
    """Split SQL into tokens; the last one is of kind `end`.

    Raises:
        PredicateError: A character that starts no token, or more than `limit` tokens.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(sql):
        match = _TOKEN.match(sql, position)
        if match is None:
            shown = sql if len(sql) <= 200 else sql[:197] + "..."
            unread = sql[position : position + 12]
            raise PredicateError(shown, f"cannot read {unread!r} at character {position + 1}")
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(_token(kind, match[0], position))
        if len(tokens) > limit:
            raise PredicateError(
                sql[:200] + "...",
                f"it has more than {limit} parts; give many values as col(...).isin([...])",
            )
        position = match.end()
    tokens.append(Token("end", "", len(sql)))
    return tokens


def number_literal(source: str) -> Literal | None:
    """Return the literal of a number, with its sign; None if its type cannot hold it.

    As in Spark: an integer is an `integer`, else a `long`, else a decimal; a point makes a
    decimal, an exponent a double, and a suffix sets the type.
    """
    match = _NUMBER.fullmatch(source)
    digits, suffix = (match[1], (match[2] or "").upper()) if match else (source, "")
    if suffix in ("D", "F") or (not suffix and "e" in digits.lower()):
        return Literal(float(digits), PrimitiveType("float" if suffix == "F" else "double"))
    if suffix in _INTEGER_SUFFIXES:
        return _integer(digits, (_INTEGER_SUFFIXES[suffix],))
    whole = None if suffix else _integer(digits, ("integer", "long"))
    if whole is not None:
        return whole
    number = Decimal(digits)
    _, figures, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(figures) + max(int(exponent), 0), scale, 1)
    return Literal(number, DecimalType(precision, scale)) if precision <= 38 else None


def _integer(digits: str, kinds: tuple[str, ...]) -> Literal | None:
    """Return an integer of the first type that holds it."""
    if not digits.lstrip("-").isdecimal() or len(digits) > 39:
        return None
    value = int(digits)
    fitting = (k for k in kinds if INTEGER_RANGES[k][0] <= value <= INTEGER_RANGES[k][1])
    kind = next(fitting, None)
    return None if kind is None else Literal(value, PrimitiveType(kind))


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


def _unescape(match: re.Match[str]) -> str:
    if match[1] or match[2]:
        code = int(match[1] or match[2], 16)
        return chr(code) if code < 0x110000 else match[0]
    if match[3]:
        return chr(int(match[3], 8))
    return _ESCAPED.get(match[4], match[4])


def _joined_pairs(string: str, start: int) -> str:
    """Join surrogate pairs, which escapes may spell; a lone surrogate is an error."""
    if not any("\ud800" <= character <= "\udfff" for character in string):
        return string
    try:
        return string.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        reason = f"half a surrogate pair in the string at character {start + 1}"
        raise PredicateError(ascii(string), reason) from None
