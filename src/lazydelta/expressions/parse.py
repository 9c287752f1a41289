"""SQL text, in Spark's dialect, to nodes: a small precedence-climbing parser.

It takes what can stand in a WHERE clause over one table's columns, and says where the text goes
wrong. The text is untrusted: its depth and size are bounded. Names and types are checked later,
by `expressions.binding`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NoReturn

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    Value,
)
from lazydelta.expressions.tokens import Token, number_literal, tokenize
from lazydelta.schema import DataType, DecimalType, PrimitiveType, parse_value

__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "Parser",
    "parse_path",
    "parse_predicate",
    "parse_type",
    "parse_value_text",
]

MAX_DEPTH = 64
"""Deepest nesting of a predicate given as text."""
MAX_NODES = 10_000
"""Most names, constants and operators in a predicate given as text."""

_COMPARISONS = {
    "=": "=",
    "==": "=",
    "<=>": "<=>",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
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
_TYPED_LITERALS = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
_KEYWORDS = ("and", "or", "not", "in", "is", "like", "between", "escape", "as")
_ALIASES = {"substr": "substring", "to_date": "date", "dayofmonth": "day"}
_BOOLEAN = PrimitiveType("boolean")
_STRING = PrimitiveType("string")


def parse_predicate(text: str) -> Predicate:
    """Parse the text of a WHERE clause.

    >>> print(parse_predicate("fare > 50 and day between date '2026-01-01' and '2026-01-31'"))
    fare > 50 AND (day >= DATE '2026-01-01' AND day <= '2026-01-31')

    Raises:
        PredicateError: The text is no predicate; the message shows where.
    """
    parser = Parser(text)
    predicate = parser.predicate()
    parser.expect_end()
    return predicate


def parse_value_text(text: str) -> Value:
    """Parse the text of a value: a column's generation expression, say."""
    parser = Parser(text)
    value = parser.value()
    parser.expect_end()
    return value


def parse_path(text: str) -> tuple[str, ...]:
    """Split a column's name at its dots; a part in backticks may hold any character."""
    parser = Parser(text)
    path = parser.path()
    parser.expect_end()
    return path


def parse_type(text: str) -> DataType:
    """Parse the name of a type that a value can be cast to."""
    parser = Parser(text)
    kind = parser.type()
    parser.expect_end()
    return kind


class Parser:
    """One pass over the tokens; each method reads one level of precedence."""

    memberships: tuple[str, ...] = ("in", "like", "between")
    """Keywords that may follow a value and a NOT."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text, limit=MAX_NODES)
        self.at = 0
        self.depth = 0

    # --- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def accept(self, *words: str) -> bool:
        """Step over these keywords or signs if they come next, in order."""
        for offset, word in enumerate(words):
            if self.at + offset >= len(self.tokens) or not self.tokens[self.at + offset].says(word):
                return False
        self.at += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.fail(f"expected {word.upper()!r}")

    def expect_end(self) -> None:
        if self.token.kind != "end":
            self.fail("expected the end")

    def fail(self, reason: str) -> NoReturn:
        shown = "the end of the text" if self.token.kind == "end" else repr(self.token.source)
        start = max(self.token.start - 60, 0)
        line = self.text[start : self.token.start + 40].replace("\n", " ")
        caret = " " * (self.token.start - start) + "^"
        raise PredicateError(
            self.text if len(self.text) <= 200 else self.text[:197] + "...",
            f"{reason}, but found {shown} at character {self.token.start + 1}\n  {line}\n  {caret}",
        )

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested more than {MAX_DEPTH} deep")

    # --- predicates, loosest first

    def predicate(self) -> Predicate:
        return self.to_predicate(self.expression())

    def expression(self) -> Value | Predicate:
        """Read OR; a lone value passes through, so that parentheses may hold either."""
        self.deeper()
        arms = [self.conjunction()]
        while self.accept("or"):
            arms.append(self.conjunction())
        self.depth -= 1
        return arms[0] if len(arms) == 1 else Or(tuple(map(self.to_predicate, arms)))

    def conjunction(self) -> Value | Predicate:
        arms = [self.negation()]
        while self.accept("and"):
            arms.append(self.negation())
        return arms[0] if len(arms) == 1 else And(tuple(map(self.to_predicate, arms)))

    def negation(self) -> Value | Predicate:
        if not (self.accept("not") or self.accept("!")):
            return self.comparison()
        self.deeper()
        inner = self.to_predicate(self.negation())
        self.depth -= 1
        return Not(inner)

    def comparison(self) -> Value | Predicate:
        left: Value | Predicate = self.sum()
        while True:
            op = _COMPARISONS.get(self.token.source) if self.token.kind == "sign" else None
            if op is not None:
                self.take()
                left = self.compare(op, left, self.sum())
            elif self.accept("is"):
                left = self.truth_test(left)
            elif any(self.accept("not", word) for word in self.memberships):
                self.at -= 1
                left = Not(self.membership(left))
            elif any(self.token.says(word) for word in self.memberships):
                left = self.membership(left)
            else:
                return left

    def compare(self, op: str, left: Value | Predicate, right: Value | Predicate) -> Predicate:
        """Compare; a predicate compared with TRUE or FALSE is a test of it."""
        if isinstance(left, Value) and isinstance(right, Value):
            return Compare(op, left, right)
        if isinstance(left, Predicate) and isinstance(right, Literal) and right.type == _BOOLEAN:
            wanted = left if right.value == (op != "!=") else Not(left)
            return IsTrue(wanted) if op == "<=>" else wanted
        self.fail("predicates can only be compared with TRUE or FALSE")
        return None

    def truth_test(self, left: Value | Predicate) -> Predicate:
        negated = self.accept("not")
        if self.accept("null"):
            result: Predicate = IsNull(left)
        elif self.accept("true"):
            result = IsTrue(self.to_predicate(left))
        elif self.accept("false"):
            result = IsTrue(Not(self.to_predicate(left)))
        else:
            self.fail("expected NULL, TRUE or FALSE")
        return Not(result) if negated else result

    def membership(self, left: Value | Predicate) -> Predicate:
        value = self.to_value(left)
        if self.accept("like"):
            return self.like(value)
        if self.accept("between"):
            low = self.to_value(self.sum())
            self.expect("and")
            high = self.to_value(self.sum())
            return And((Compare(">=", value, low), Compare("<=", value, high)))
        self.expect("in")
        self.expect("(")
        options = [self.to_value(self.sum())]
        while self.accept(","):
            options.append(self.to_value(self.sum()))
        self.expect(")")
        literals = tuple(option for option in options if isinstance(option, Literal))
        if len(literals) == len(options):
            return In(value, literals)
        return Or(tuple(Compare("=", value, option) for option in options))

    def like(self, value: Value) -> Predicate:
        if self.token.kind != "string":
            self.fail("LIKE needs a constant pattern")
        pattern, escape = self.take().value, "\\"
        if self.accept("escape"):
            escape = self.take().value if self.token.kind == "string" else ""
            if len(escape) != 1:
                self.fail("ESCAPE needs one character")
        return Like(value, pattern, escape)

    # --- values

    def value(self) -> Value:
        return self.to_value(self.expression())

    def sum(self) -> Value | Predicate:
        left = self.unary()
        while self.token.kind == "sign" and self.token.source in ("+", "-"):
            op = self.take().source
            left = Call(op, (self.to_value(left), self.to_value(self.unary())))
        return left

    def unary(self) -> Value | Predicate:
        if self.accept("+"):
            return self.unary()
        if not self.accept("-"):
            return self.primary()
        self.deeper()
        is_number = self.token.kind == "number"
        inner = self.to_value(self.unary())
        self.depth -= 1
        if is_number and isinstance(inner, Literal):
            return Literal(_negative(inner.value), inner.type)
        return Call("-", (inner,))

    def primary(self) -> Value | Predicate:
        token = self.token
        if token.kind == "number":
            self.take()
            return self.number(token)
        if token.kind in ("string", "binary"):
            self.take()
            return Literal(
                token.value, _STRING if token.kind == "string" else PrimitiveType("binary")
            )
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        keyword = token.kind == "word" and token.source.lower() in _KEYWORDS
        if token.kind not in ("word", "quoted") or keyword:
            self.fail("expected a column or a constant")
        return self.word(token)

    def number(self, token: Token) -> Literal:
        return number_literal(token.source) or self.fail("this number is out of range")

    def word(self, token: Token) -> Value | Predicate:
        word = token.value.lower() if token.kind == "word" else ""
        after = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else token
        if word in ("true", "false"):
            self.take()
            return Literal(word == "true", _BOOLEAN)
        if word == "null":
            self.take()
            return Literal(None, PrimitiveType("void"))
        if word in _TYPED_LITERALS and after.kind == "string":
            return self.typed_literal(word)
        if word == "cast" and after.says("("):
            return self.cast()
        if word and after.says("("):
            return self.call(_ALIASES.get(word, word))
        return Column(self.path())

    def typed_literal(self, word: str) -> Literal:
        self.take()
        kind = PrimitiveType("timestamp" if word == "timestamp_ltz" else word)
        try:
            literal = Literal(parse_value(self.token.value.strip(), kind), kind)
        except ValueError as error:
            self.fail(str(error))
        self.take()
        return literal

    def cast(self) -> Value:
        self.take()
        self.expect("(")
        inner = self.value()
        self.expect("as")
        kind = self.type()
        self.expect(")")
        if (
            isinstance(inner, Literal)
            and inner.type == _STRING
            and str(kind) in ("float", "double")
        ):
            try:  # the only way to write NaN and Infinity
                return Literal(parse_value(inner.value, kind), kind)
            except ValueError as error:
                self.fail(str(error))
        return Cast(inner, kind)

    def call(self, name: str) -> Value:
        self.take()
        self.expect("(")
        args: list[Value] = []
        while not self.accept(")"):
            if args:
                self.expect(",")
            args.append(self.value())
        return Call(name, tuple(args))

    def type(self) -> DataType:
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
            self.at -= 1
            self.fail("expected a type")
        return PrimitiveType(_TYPE_NAMES[name])

    def small_number(self) -> int:
        if self.token.kind != "number" or not self.token.source.isdecimal():
            self.fail("expected a number")
        return int(self.take().source[:4])

    def path(self) -> tuple[str, ...]:
        parts = []
        while True:
            if self.token.kind not in ("word", "quoted"):
                self.fail("expected a column's name")
            parts.append(self.take().value)
            if not self.accept("."):
                return tuple(parts)

    # --- between the two

    def to_predicate(self, node: Value | Predicate) -> Predicate:
        if isinstance(node, Predicate):
            return node
        if isinstance(node, Literal) and (node.value is None or node.type == _BOOLEAN):
            return Constant(node.value)
        if isinstance(node, Literal):
            self.fail(f"{node} is not a condition")
        return Compare("=", node, Literal(True, _BOOLEAN))

    def to_value(self, node: Value | Predicate) -> Value:
        if isinstance(node, Value):
            return node
        self.fail("a condition cannot be used as a value here")
        return None


def _negative(number: Any) -> Any:
    """Return a number with the other sign; the arithmetic of decimals would round to 28 digits."""
    return number.copy_negate() if isinstance(number, Decimal) and number else -number
