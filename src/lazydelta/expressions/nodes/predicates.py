"""Predicates: expressions that are true, false or unknown (NULL) for a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.expressions.nodes.base import Node, Value
from lazydelta.expressions.nodes.sql import quote_string
from lazydelta.schema import DataType, PrimitiveType

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.value_nodes import Literal

__all__ = [
    "And",
    "AnyWithin",
    "Compare",
    "Constant",
    "In",
    "IsNull",
    "IsTrue",
    "Like",
    "Not",
    "Or",
    "Predicate",
]

_BOOLEAN = PrimitiveType("boolean")


class Predicate(Value):
    """A condition on a row. Combine with `&`, `|` and `~`."""

    __slots__ = ()

    @property
    def type(self) -> DataType:
        """The type of every predicate: boolean."""
        return _BOOLEAN

    def __and__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return And((*_arms(self, And), *_arms(other, And)))

    def __or__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return Or((*_arms(self, Or), *_arms(other, Or)))

    def __invert__(self) -> Predicate:
        return self.predicate if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        msg = f"the predicate {self} has no truth value in Python: combine with & | ~"
        raise TypeError(msg)


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """TRUE, FALSE or, as None, unknown."""

    value: bool | None

    def __str__(self) -> str:
        return "NULL" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """A comparison; `op` is one of `=`, `<=>`, `!=`, `<`, `<=`, `>`, `>=`.

    As in Spark, NaN equals NaN and is greater than every other number.
    """

    op: str
    left: Value
    right: Value

    def parts(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def rebuild(self, parts: tuple[Any, ...]) -> Compare:
        return Compare(self.op, *parts)

    def __str__(self) -> str:
        return f"{_wrapped(self.left)} {self.op} {_wrapped(self.right)}"


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """Whether a value is one of the options; unknown if no option matches and one is NULL."""

    value: Value
    options: tuple[Literal, ...]

    def parts(self) -> tuple[Node, ...]:
        return (self.value, *self.options)

    def rebuild(self, parts: tuple[Any, ...]) -> In:
        return In(parts[0], tuple(parts[1:]))

    def __str__(self) -> str:
        return f"{_wrapped(self.value)} IN ({', '.join(map(str, self.options))})"


@dataclass(frozen=True, slots=True)
class AnyWithin(Predicate):
    """Whether one of the options, which are sorted and not NULL, lies between two values."""

    low: Value
    high: Value
    options: tuple[Literal, ...]

    def parts(self) -> tuple[Node, ...]:
        return (self.low, self.high, *self.options)

    def rebuild(self, parts: tuple[Any, ...]) -> AnyWithin:
        return AnyWithin(parts[0], parts[1], tuple(parts[2:]))

    def __str__(self) -> str:
        options = ", ".join(map(str, self.options))
        return f"any_within({self.low}, {self.high}, {options})"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """Whether a value is NULL. Never unknown itself."""

    operand: Value

    def parts(self) -> tuple[Node, ...]:
        return (self.operand,)

    def rebuild(self, parts: tuple[Any, ...]) -> IsNull:
        return IsNull(parts[0])

    def __str__(self) -> str:
        return f"{_wrapped(self.operand)} IS NULL"


@dataclass(frozen=True, slots=True)
class IsTrue(Predicate):
    """Whether a predicate is true: not false and not unknown. Never unknown itself."""

    predicate: Predicate

    def parts(self) -> tuple[Node, ...]:
        return (self.predicate,)

    def rebuild(self, parts: tuple[Any, ...]) -> IsTrue:
        return IsTrue(parts[0])

    def __str__(self) -> str:
        return f"{_wrapped(self.predicate)} IS TRUE"


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """Whether a string matches a pattern of `%` (any string) and `_` (any character)."""

    value: Value
    pattern: str
    escape: str = "\\"

    def parts(self) -> tuple[Node, ...]:
        return (self.value,)

    def rebuild(self, parts: tuple[Any, ...]) -> Like:
        return Like(parts[0], self.pattern, self.escape)

    def __str__(self) -> str:
        escape = "" if self.escape == "\\" else f" ESCAPE {quote_string(self.escape)}"
        return f"{_wrapped(self.value)} LIKE {quote_string(self.pattern)}{escape}"


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The opposite; unknown stays unknown."""

    predicate: Predicate

    def parts(self) -> tuple[Node, ...]:
        return (self.predicate,)

    def rebuild(self, parts: tuple[Any, ...]) -> Not:
        return Not(parts[0])

    def __str__(self) -> str:
        return f"NOT {_wrapped(self.predicate)}"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True if all arms are; false if one is false."""

    arms: tuple[Predicate, ...]

    def parts(self) -> tuple[Node, ...]:
        return self.arms

    def rebuild(self, parts: tuple[Any, ...]) -> And:
        return And(parts)

    def __str__(self) -> str:
        return " AND ".join(map(_arm_sql, self.arms))


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True if one arm is; false if all are false."""

    arms: tuple[Predicate, ...]

    def parts(self) -> tuple[Node, ...]:
        return self.arms

    def rebuild(self, parts: tuple[Any, ...]) -> Or:
        return Or(parts)

    def __str__(self) -> str:
        return " OR ".join(map(_arm_sql, self.arms))


def _arms(predicate: Predicate, kind: type[And | Or]) -> tuple[Predicate, ...]:
    """Keep chains flat: a long chain of `&` is one wide node, not a deep one."""
    return predicate.arms if isinstance(predicate, kind) else (predicate,)


def _wrapped(node: Node) -> str:
    plain = not isinstance(node, Predicate) or isinstance(node, Constant)
    return str(node) if plain else f"({node})"


def _arm_sql(node: Node) -> str:
    return f"({node})" if isinstance(node, (And, Or)) else str(node)
