"""The text of a rule, a generated column or a default, to nodes.

A formula says more than a filter: all of arithmetic, CASE, conditions as values. So its parser is
the one of filters, with these added; what can be used in a filter stays what it was. Names, types
and functions are checked later, by `expressions.formula_types`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.expressions.nodes import Call, Compare, Literal, Node, Predicate, Value
from lazydelta.expressions.parse import Parser
from lazydelta.schema import INTEGER_RANGES, PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.tokens import Token

__all__ = ["Truth", "parse_formula"]

_INTEGER = PrimitiveType("integer")
_MOST_INTEGER, _MOST_LONG = INTEGER_RANGES["integer"][1], INTEGER_RANGES["long"][1]


@dataclass(frozen=True, slots=True)
class Truth(Value):
    """A condition as a value: true, false or null."""

    predicate: Predicate

    def parts(self) -> tuple[Node, ...]:
        return (self.predicate,)

    def rebuild(self, parts: tuple[Any, ...]) -> Truth:
        return Truth(parts[0])

    def __str__(self) -> str:
        return f"({self.predicate})"


def parse_formula(text: str) -> Value:
    """Parse the text of any expression over a row.

    >>> print(parse_formula("CASE WHEN a > 1 THEN a * 2 ELSE b || 'x' END"))
    case((a > 1), *(a, 2), ||(b, 'x'))

    Raises:
        PredicateError: The text is no expression that lazydelta knows; the message shows where.
    """
    parser = _FormulaParser(text)
    value = parser.value()
    parser.expect_end()
    return value


class _FormulaParser(Parser):
    memberships = (*Parser.memberships, "rlike", "regexp")

    def compare(self, op: str, left: Value | Predicate, right: Value | Predicate) -> Predicate:
        return Compare(op, self.to_value(left), self.to_value(right))

    def membership(self, left: Value | Predicate) -> Predicate:
        if not (self.accept("rlike") or self.accept("regexp")):
            return super().membership(left)
        return self.to_predicate(Call("rlike", (self.to_value(left), self.to_value(self.sum()))))

    def sum(self) -> Value | Predicate:
        return self.chain(("+", "-", "||"), self.product)

    def product(self) -> Value | Predicate:
        return self.chain(("*", "/", "%", "div"), self.unary)

    def chain(
        self, signs: tuple[str, ...], operand: Callable[[], Value | Predicate]
    ) -> Value | Predicate:
        """Read operands joined by signs of one precedence, from left to right."""
        left = operand()
        while any(self.token.says(sign) for sign in signs):
            sign = self.take().source.lower()
            left = Call(sign, (self.to_value(left), self.to_value(operand())))
        return left

    def number(self, token: Token) -> Literal:
        """Read a number; as in Spark, a whole one is an integer if it fits, else a long."""
        literal = super().number(token)
        if not token.source.isdecimal():
            return literal
        if literal.value > _MOST_LONG:
            self.fail("this number is out of range")
        return Literal(literal.value, _INTEGER) if literal.value <= _MOST_INTEGER else literal

    def word(self, token: Token) -> Value | Predicate:
        if token.kind == "word" and token.source.lower() == "case":
            return self.case()
        return super().word(token)

    def case(self) -> Value:
        """Read CASE, both with and without a value that is compared with each WHEN."""
        self.take()
        subject = None if self.token.says("when") else self.value()
        args: list[Value] = []
        while self.accept("when"):
            condition = self.value()
            if subject is not None:
                condition = Truth(Compare("=", subject, condition))
            self.expect("then")
            args += [condition, self.value()]
        if not args:
            self.fail("expected WHEN")
        if self.accept("else"):
            args.append(self.value())
        self.expect("end")
        return Call("case", tuple(args))

    def call(self, name: str) -> Value:
        called = super().call(name)
        return Call("case", called.parts()) if name == "if" else called  # type: ignore[arg-type]

    def to_predicate(self, node: Value | Predicate) -> Predicate:
        return node.predicate if isinstance(node, Truth) else super().to_predicate(node)

    def to_value(self, node: Value | Predicate) -> Value:
        return Truth(node) if isinstance(node, Predicate) else node
