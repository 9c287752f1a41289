"""The predicate tree: one meaning for every door (operators, SQL text, tuples, JSON).

Nodes are immutable values: they compare by structure, hash and pickle. `Predicate`s are true,
false or unknown for a row; `Value`s are what they compare. The same nodes carry a predicate on
rows (over `Column`s) and, rewritten by `expressions.skip`, one on a file's statistics (over `Stat`s).
What a predicate means on data is in `expressions.arrow`; nothing here knows schemas or data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from lazydelta.expressions.text import literal_text, quote_path, quote_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.schema import DataType

__all__ = [
    "And",
    "AnyWithin",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "Constant",
    "In",
    "IsNull",
    "IsTrue",
    "Like",
    "Literal",
    "Node",
    "Not",
    "Or",
    "Predicate",
    "Stat",
    "Value",
]


class Node:
    """Base of the tree: its parts, and its text in Spark's SQL."""

    __slots__ = ()

    def parts(self) -> tuple[Node, ...]:
        """Return the nodes directly below this one."""
        return ()

    def rebuild(self, parts: tuple[Any, ...]) -> Self:  # noqa: ARG002 - leaves have none
        """Return the same node over other parts, given in the order of `parts()`."""
        return self

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.parts())


class Predicate(Node):
    """Something that is true, false or unknown for a row; combine with `&`, `|` and `~`."""

    __slots__ = ()

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


class Value(Node):
    """Something that has a value for a row."""

    __slots__ = ()


# --- values -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column(Value):
    """A column or a part of a struct, by its path. `bind` fills in the type."""

    path: tuple[str, ...]
    type: DataType | None = None
    is_partition: bool = False

    @property
    def name(self) -> str:
        """The path as SQL writes it."""
        return quote_path(self.path)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Stat(Value):
    """A fact about one column of one file, as its log entry tells it.

    `kind` is `min`, `max`, `null_count`, `num_records` (with an empty path) or `partition`. The
    path is logical. `max` bounds from above: statistics hold timestamps cut to milliseconds, so
    whoever fetches the `max` of a timestamp adds 999 microseconds.
    """

    kind: str
    path: tuple[str, ...]
    type: DataType

    def __str__(self) -> str:
        name = f"{self.kind}.{quote_path(self.path)}" if self.path else self.kind
        return f"`{name}`"


@dataclass(frozen=True, slots=True)
class Literal(Value):
    """A constant. Dates are days, timestamps microseconds since 1970; None is SQL's NULL."""

    value: Any
    type: DataType

    def __eq__(self, other: object) -> bool:
        """Compare type and value; NaN equals NaN, and 1 is not 1.0."""
        if not isinstance(other, Literal):
            return NotImplemented
        mine = (type(self.value), repr(self.value), self.type)
        return mine == (type(other.value), repr(other.value), other.type)

    def __hash__(self) -> int:
        return hash((repr(self.value), self.type))

    def __str__(self) -> str:
        return literal_text(self.value, self.type)


@dataclass(frozen=True, slots=True)
class Cast(Value):
    """A value as another type."""

    value: Value
    type: DataType

    def parts(self) -> tuple[Node, ...]:
        return (self.value,)

    def rebuild(self, parts: tuple[Any, ...]) -> Cast:
        return Cast(parts[0], self.type)

    def __str__(self) -> str:
        return f"CAST({self.value} AS {str(self.type).upper()})"


@dataclass(frozen=True, slots=True)
class Call(Value):
    """A function of values; `+` and `-` are functions too. `bind` fills in the type."""

    name: str
    args: tuple[Value, ...]
    type: DataType | None = None

    def parts(self) -> tuple[Node, ...]:
        return self.args

    def rebuild(self, parts: tuple[Any, ...]) -> Call:
        return Call(self.name, parts, self.type)

    def __str__(self) -> str:
        if self.name not in ("+", "-"):
            return f"{self.name}({', '.join(map(str, self.args))})"
        if len(self.args) == 1:
            return f"(- {self.args[0]})"
        return f"({self.args[0]} {self.name} {self.args[1]})"


# --- predicates ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """TRUE, FALSE or, as None, unknown."""

    value: bool | None

    def __str__(self) -> str:
        return "NULL" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """Two values compared; `op` is one of `=`, `<=>`, `!=`, `<`, `<=`, `>`, `>=`.

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
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """Whether a value is one of the options; unknown if it is not and one of them is NULL."""

    value: Value
    options: tuple[Literal, ...]

    def parts(self) -> tuple[Node, ...]:
        return (self.value, *self.options)

    def rebuild(self, parts: tuple[Any, ...]) -> In:
        return In(parts[0], tuple(parts[1:]))

    def __str__(self) -> str:
        return f"{self.value} IN ({', '.join(map(str, self.options))})"


@dataclass(frozen=True, slots=True)
class AnyWithin(Predicate):
    """Whether one of the options, sorted and none of them NULL, lies between two values."""

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
    """Whether a value is NULL, or a predicate unknown. Never unknown itself."""

    operand: Value | Predicate

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
    """Whether a text matches a pattern of `%` (any text) and `_` (any character)."""

    value: Value
    pattern: str
    escape: str = "\\"

    def parts(self) -> tuple[Node, ...]:
        return (self.value,)

    def rebuild(self, parts: tuple[Any, ...]) -> Like:
        return Like(parts[0], self.pattern, self.escape)

    def __str__(self) -> str:
        escape = "" if self.escape == "\\" else f" ESCAPE {quote_text(self.escape)}"
        return f"{self.value} LIKE {quote_text(self.pattern)}{escape}"


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
        return " AND ".join(map(_arm_text, self.arms))


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True if one arm is; false if all are false."""

    arms: tuple[Predicate, ...]

    def parts(self) -> tuple[Node, ...]:
        return self.arms

    def rebuild(self, parts: tuple[Any, ...]) -> Or:
        return Or(parts)

    def __str__(self) -> str:
        return " OR ".join(map(_arm_text, self.arms))


def _arms(predicate: Predicate, kind: type[And | Or]) -> tuple[Predicate, ...]:
    """Keep chains flat: a long chain of `&` is one wide node, not a deep one."""
    return predicate.arms if isinstance(predicate, kind) else (predicate,)


def _wrapped(node: Node) -> str:
    return str(node) if isinstance(node, (Value, Constant)) else f"({node})"


def _arm_text(node: Node) -> str:
    return f"({node})" if isinstance(node, (And, Or)) else str(node)
