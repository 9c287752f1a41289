"""Parser of SQL expressions in Spark's dialect, by precedence climbing.

One grammar for filters, CHECK constraints, invariants, generated columns and defaults
(docs/reference/sql-expressions.md). Input is untrusted: depth and size are bounded, and errors
show the position. `binding` resolves names and types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta.expressions.nodes.predicates import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Not,
    Or,
    Predicate,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, DoubleQuoted, Literal
from lazydelta.expressions.token_reader import TokenReader
from lazydelta.expressions.tokens import number_literal
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import parse_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.nodes.base import Value
    from lazydelta.expressions.tokens import Token
    from lazydelta.schema import DataType

__all__ = [
    "parse_expression",
    "parse_path",
    "parse_predicate",
    "parse_type",
]

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
_TYPED_LITERALS = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
INTERVAL_UNITS = {
    **{unit: unit for unit in ("year", "month", "week", "day", "hour", "minute", "second")},
    **{f"{unit}s": unit for unit in ("year", "month", "week", "day", "hour", "minute", "second")},
}
"""Units of interval literals."""
EXTRACTED = {
    **{f: f for f in ("year", "quarter", "month", "day", "hour", "minute", "dayofweek")},
    "week": "weekofyear",
    "doy": "dayofyear",
}
"""Fields of `extract(field FROM source)`, as functions."""
SPECIAL_SYNTAX = ("trim", "extract", "position")
_TRIM_SIDES = {"both": "btrim", "leading": "ltrim", "trailing": "rtrim"}
_WHOLE = re.compile(r"-?\d{1,18}")
_KEYWORDS = ("and", "or", "not", "in", "is", "like", "between", "escape", "as")
_MEMBERSHIPS = ("in", "like", "between", "rlike", "regexp")
"""Keywords that may follow a value and a NOT."""
_BOOLEAN = PrimitiveType("boolean")
_STRING = PrimitiveType("string")
_VOID = PrimitiveType("void")


def parse_predicate(sql: str) -> Predicate:
    """Parse a condition.

    >>> print(parse_predicate("fare > 50 and day between date '2026-01-01' and '2026-01-31'"))
    fare > 50 AND (day >= DATE '2026-01-01' AND day <= '2026-01-31')

    Raises:
        PredicateError: Not a condition; the message shows the position.
    """
    parser = _Parser(sql)
    predicate = parser.to_predicate(parser.expression())
    parser.expect_end()
    return predicate


def parse_expression(sql: str) -> Value:
    """Parse an expression of any type.

    >>> print(parse_expression("CASE WHEN a > 1 THEN a * 2 ELSE b || 'x' END"))
    CASE WHEN a > 1 THEN (a * 2) ELSE (b || 'x') END

    Raises:
        PredicateError: Not an expression; the message shows the position.
    """
    parser = _Parser(sql)
    value = parser.expression()
    parser.expect_end()
    return value


def parse_path(name: str) -> tuple[str, ...]:
    """Split a column's name at its dots; a part in backticks may hold any character."""
    parser = _Parser(name)
    path = parser.path()
    parser.expect_end()
    return path


def parse_type(name: str) -> DataType:
    """Parse the name of a type that a value can be cast to."""
    parser = _Parser(name)
    kind = parser.type()
    parser.expect_end()
    return kind


class _Parser(TokenReader):
    """One pass over the tokens; each method parses one level of precedence."""

    # --- predicates, loosest first

    def expression(self) -> Value:
        """Parse OR; a value that is not a condition passes through."""
        self.deeper()
        arms = [self.conjunction()]
        while self.accept("or"):
            arms.append(self.conjunction())
        self.depth -= 1
        return arms[0] if len(arms) == 1 else Or(tuple(map(self.to_predicate, arms)))

    def conjunction(self) -> Value:
        arms = [self.negation()]
        while self.accept("and"):
            arms.append(self.negation())
        return arms[0] if len(arms) == 1 else And(tuple(map(self.to_predicate, arms)))

    def negation(self) -> Value:
        if not (self.accept("not") or self.accept("!")):
            return self.comparison()
        self.deeper()
        inner = self.to_predicate(self.negation())
        self.depth -= 1
        return Not(inner)

    def comparison(self) -> Value:
        left = self.sum()
        while True:
            op = _COMPARISONS.get(self.token.source) if self.token.kind == "sign" else None
            if op is not None:
                self.take()
                left = Compare(op, left, self.sum())
            elif self.accept("is"):
                left = self.is_test(left)
            elif any(self.accept("not", word) for word in _MEMBERSHIPS):
                self.position -= 1
                left = Not(self.membership(left))
            elif any(self.token.says(word) for word in _MEMBERSHIPS):
                left = self.membership(left)
            else:
                return left

    def is_test(self, left: Value) -> Predicate:
        negated = self.accept("not")
        if self.accept("distinct", "from"):
            negated = not negated
            result: Predicate = Compare("<=>", left, self.sum())
        elif self.accept("null"):
            result = IsNull(left)
        elif self.accept("true"):
            result = IsTrue(self.to_predicate(left))
        elif self.accept("false"):
            result = IsTrue(Not(self.to_predicate(left)))
        else:
            self.fail("expected NULL, TRUE, FALSE or DISTINCT FROM")
        return Not(result) if negated else result

    def membership(self, left: Value) -> Predicate:
        if self.accept("like"):
            return self.like(left)
        if self.accept("rlike") or self.accept("regexp"):
            return self.to_predicate(Call("rlike", (left, self.sum())))
        if self.accept("between"):
            low = self.sum()
            self.expect("and")
            return And((Compare(">=", left, low), Compare("<=", left, self.sum())))
        self.expect("in")
        self.expect("(")
        options = [self.sum()]
        while self.accept(","):
            options.append(self.sum())
        self.expect(")")
        literals = tuple(option for option in options if isinstance(option, Literal))
        if len(literals) == len(options):
            return In(left, literals)
        return Or(tuple(Compare("=", left, option) for option in options))

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

    def sum(self) -> Value:
        return self.chain(("+", "-", "||"), self.product)

    def product(self) -> Value:
        return self.chain(("*", "/", "%", "div"), self.unary)

    def chain(self, operators: tuple[str, ...], operand: Callable[[], Value]) -> Value:
        """Parse operands joined by operators of one precedence, from left to right."""
        left = operand()
        while any(self.token.says(operator) for operator in operators):
            operator = self.take().source.lower()
            left = Call(operator, (left, operand()))
        return left

    def unary(self) -> Value:
        if self.accept("+"):
            return self.unary()
        if not self.accept("-"):
            return self.postfix(self.primary())
        if self.token.kind == "number":
            return self.number(self.take(), "-")
        self.deeper()
        inner = self.unary()
        self.depth -= 1
        return Call("-", (inner,))

    def postfix(self, value: Value) -> Value:
        """Parse what follows a value: `[index]`, `.field`, `::type`."""
        while True:
            if self.accept("["):
                value = Call("[]", (value, self.expression()))
                self.expect("]")
            elif self.accept("."):
                if not (self.token.kind in ("word", "quoted") or self.token.is_double_quoted):
                    self.fail("expected a field's name")
                value = Call(".", (value, Literal(self.take().value, _STRING)))
            elif self.accept("::"):
                value = Cast(value, self.type())
            else:
                return value

    def primary(self) -> Value:
        token = self.token
        if token.kind == "number":
            return self.number(self.take())
        if token.kind == "string":
            kind = DoubleQuoted if token.is_double_quoted else Literal
            return kind(self.take().value, _STRING)
        if token.kind == "binary":
            return Literal(self.take().value, PrimitiveType("binary"))
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        keyword = token.kind == "word" and token.source.lower() in _KEYWORDS
        if token.kind not in ("word", "quoted") or keyword:
            self.fail("expected a column or a constant")
        return self.word(token)

    def number(self, token: Token, sign: str = "") -> Literal:
        return number_literal(sign + token.source) or self.fail("this number is out of range")

    def word(self, token: Token) -> Value:  # noqa: PLR0911 - one per form
        word = token.value.lower() if token.kind == "word" else ""
        after = self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else token
        if word in ("true", "false"):
            self.take()
            return Literal(word == "true", _BOOLEAN)
        if word == "null":
            self.take()
            return Literal(None, _VOID)
        if word in _TYPED_LITERALS and after.kind == "string":
            return self.typed_literal(word)
        if (
            word == "interval"
            and not after.says("(")
            and after.kind in ("number", "string", "sign")
        ):
            return self.interval()
        if word in ("cast", "try_cast") and after.says("("):
            return self.cast(safe=word == "try_cast")
        if word == "case":
            return self.case()
        if word in SPECIAL_SYNTAX and after.says("("):
            return self.special(word)
        if word and after.says("("):
            return self.call("case" if word in ("if", "iff") else word)
        if word in ("current_date", "current_timestamp") and not after.says("."):
            self.take()
            return Call(word, ())
        return Column(self.path())

    def interval(self) -> Value:
        """Parse `INTERVAL 3 DAYS` or `INTERVAL '-3' DAY`: one number and one unit."""
        self.take()
        sign = "-" if self.accept("-") else ""
        number = sign + str(self.token.value).strip()
        unit = INTERVAL_UNITS.get(self.tokens[self.position + 1].source.lower())
        if self.token.kind not in ("number", "string") or not _WHOLE.fullmatch(number) or not unit:
            self.fail("an interval has one whole number and one unit: INTERVAL 3 DAYS")
        self.position += 2
        literal = number_literal(number) or self.fail("this number is out of range")
        return Call("interval", (literal, Literal(unit, _STRING)))

    def special(self, word: str) -> Value:
        """Parse functions with keywords: trim(BOTH x FROM y), position(x IN y), extract(...)."""
        start = self.position
        self.position += 2
        if word == "trim":
            side = next((s for s in _TRIM_SIDES if self.accept(s)), "both")
            removed = None if self.accept("from") else self.expression()
            if removed is None or self.accept("from"):
                trimmed = self.expression()
                self.expect(")")
                if removed is None:
                    return Call(_TRIM_SIDES[side], (trimmed,))
                args = (trimmed, removed) if side == "both" else (removed, trimmed)
                return Call(_TRIM_SIDES[side], args)
        elif word == "extract" and self.token.source.lower() in EXTRACTED:
            name = EXTRACTED[self.take().source.lower()]
            self.expect("from")
            inner = self.expression()
            self.expect(")")
            return Call(name, (inner,))
        elif word == "position":
            searched = self.sum()
            if self.accept("in"):
                within = self.expression()
                self.expect(")")
                return Call("locate", (searched, within))
        self.position = start
        return self.call(word)

    def typed_literal(self, word: str) -> Literal:
        self.take()
        kind = PrimitiveType("timestamp" if word == "timestamp_ltz" else word)
        try:
            literal = Literal(parse_value(self.token.value.strip(), kind), kind)
        except ValueError as error:
            self.fail(str(error))
        self.take()
        return literal

    def cast(self, *, safe: bool) -> Value:
        self.take()
        self.expect("(")
        inner = self.expression()
        self.expect("as")
        kind = self.type()
        self.expect(")")
        if (
            isinstance(inner, Literal)
            and inner.value in ("NaN", "Infinity", "-Infinity")
            and str(kind) in ("float", "double")
        ):  # the only way to write them
            return Literal(parse_value(inner.value, kind), kind)
        return Cast(inner, kind, safe)

    def call(self, name: str) -> Value:
        self.take()
        self.expect("(")
        args: list[Value] = []
        while not self.accept(")"):
            if args:
                self.expect(",")
            args.append(self.expression())
        return Call(name, tuple(args))

    def case(self) -> Value:
        """Parse CASE; the form with an operand compares it with each WHEN."""
        self.take()
        operand = None if self.token.says("when") else self.expression()
        args: list[Value] = []
        while self.accept("when"):
            condition = self.expression()
            if operand is not None:
                condition = Compare("=", operand, condition)
            self.expect("then")
            args += [condition, self.expression()]
        if not args:
            self.fail("expected WHEN")
        if self.accept("else"):
            args.append(self.expression())
        self.expect("end")
        return Call("case", tuple(args))

    def path(self) -> tuple[str, ...]:
        parts: list[str] = []
        while True:
            is_name = self.token.kind in ("word", "quoted")
            if not is_name and not (parts and self.token.is_double_quoted):  # a."b"
                self.fail("expected a column's name")
            parts.append(self.take().value)
            if not self.accept("."):
                return tuple(parts)

    def to_predicate(self, node: Value) -> Predicate:
        if isinstance(node, Predicate):
            return node
        if isinstance(node, Literal) and (node.value is None or node.type == _BOOLEAN):
            return Constant(node.value)
        if isinstance(node, Literal) and not isinstance(node, DoubleQuoted):
            self.fail(f"{node} is not a condition")
        return Compare("=", node, Literal(True, _BOOLEAN))
