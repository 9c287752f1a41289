"""Expressions that are not predicates: columns, statistics, literals, casts and function calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.expressions.nodes.base import Node, Value
from lazydelta.expressions.nodes.sql import literal_sql, quote_path, quote_string

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.schema import DataType

__all__ = ["OPERATORS", "Call", "Cast", "Column", "DoubleQuoted", "Literal", "Stat"]

OPERATORS = frozenset({"+", "-", "*", "/", "%", "div", "||"})
"""Calls that SQL writes between their operands."""


@dataclass(frozen=True, slots=True)
class Column(Value):
    """A column or a struct field, by its path. Binding sets the type."""

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
    """A statistic or partition value of one column of one file.

    `kind` is `min`, `max`, `null_count`, `num_records` (with an empty path) or `partition`. The
    path is logical. `max` is an upper bound: statistics truncate timestamps to milliseconds, so
    the caller that fetches the `max` of a timestamp adds 999 microseconds.
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
        return literal_sql(self.value, self.type)


class DoubleQuoted(Literal):
    """A string in double quotes: a string to Spark, a column to ANSI SQL. Binding decides."""

    __slots__ = ()

    def __str__(self) -> str:
        return quote_string(self.value, '"')


@dataclass(frozen=True, slots=True)
class Cast(Value):
    """A value as another type; a `safe` cast is NULL where the value does not fit."""

    value: Value
    type: DataType
    safe: bool = False

    def parts(self) -> tuple[Node, ...]:
        return (self.value,)

    def rebuild(self, parts: tuple[Any, ...]) -> Cast:
        return Cast(parts[0], self.type, self.safe)

    def __str__(self) -> str:
        name = "TRY_CAST" if self.safe else "CAST"
        return f"{name}({self.value} AS {str(self.type).upper()})"


@dataclass(frozen=True, slots=True)
class Call(Value):
    """A function call; arithmetic, `||` and CASE are calls too. Binding sets the type.

    The arguments of `case` alternate: condition, result, and a last result alone for ELSE.
    `[]` is `value[index]`, `.` is a field of a value that is not a column (its name is a literal),
    and `interval` has a number and a unit.
    """

    name: str
    args: tuple[Value, ...]
    type: DataType | None = None

    def parts(self) -> tuple[Node, ...]:
        return self.args

    def rebuild(self, parts: tuple[Any, ...]) -> Call:
        return Call(self.name, parts, self.type)

    def __str__(self) -> str:
        if self.name == "case" and len(self.args) > 1:
            return _case_sql(self.args)
        if self.name in _FORMS and len(self.args) == 2:
            return _FORMS[self.name](*self.args)
        if self.name not in OPERATORS:
            return f"{self.name}({', '.join(map(str, self.args))})"
        if len(self.args) == 1:
            return f"({self.name} {self.args[0]})"
        return f"({self.args[0]} {self.name} {self.args[1]})"


def _field_sql(value: Value, name: Value) -> str:
    shown = f"({value})" if isinstance(value, Column) else str(value)
    return f"{shown}.{quote_path([str(getattr(name, 'value', name))])}"


_FORMS: dict[str, Callable[[Value, Value], str]] = {
    "[]": lambda value, index: f"{value}[{index}]",
    ".": _field_sql,
    "interval": lambda number, unit: f"INTERVAL {number} {getattr(unit, 'value', unit)}",
}


def _case_sql(args: tuple[Value, ...]) -> str:
    branches = "".join(
        f" WHEN {condition} THEN {result}"
        for condition, result in zip(args[::2], args[1::2], strict=False)
    )
    return f"CASE{branches}{f' ELSE {args[-1]}' if len(args) % 2 else ''} END"
