"""Resolve double-quoted strings: `"x"` is a string to Spark and a column to ANSI SQL.

A string that names a column of the schema is that column, as delta-rs and DataFusion write it.
Expressions that two engines would read differently are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes.predicates import And, IsNull, IsTrue, Not, Or, Predicate
from lazydelta.expressions.nodes.value_nodes import Column, DoubleQuoted, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazydelta.expressions.nodes.base import Node, Value

__all__ = ["resolve_quotes"]

_CURE = "write a column in `backticks` and a string in 'single quotes'"


def resolve_quotes(
    node: Value, is_column: Callable[[str], bool], is_valid: Callable[[Value], bool]
) -> Value:
    """Return the expression with double-quoted column names as columns.

    Args:
        node: As parsed.
        is_column: Whether the schema has a column of a name.
        is_valid: Whether an expression binds to the schema.

    Raises:
        PredicateError: The double quotes are ambiguous.
    """
    quoted = dict.fromkeys(str(n.value) for n in node.walk() if isinstance(n, DoubleQuoted))
    if not quoted:
        return node
    strings = [name for name in quoted if not is_column(name)]
    if strings and len(strings) < len(quoted):
        column = next(name for name in quoted if name not in strings)
        reason = f'"{column}" names a column and "{strings[0]}" does not'
        raise PredicateError(str(node), f"{reason}; {_CURE}")
    for condition in _conditions(node):
        _check(condition, are_strings=bool(strings), is_valid=is_valid)
    return node if strings else _replaced(node, lambda literal: Column((literal.value,)))


def _check(condition: Value, *, are_strings: bool, is_valid: Callable[[Value], bool]) -> None:
    quoted = next((n for n in condition.walk() if isinstance(n, DoubleQuoted)), None)
    if quoted is None:
        return
    has_column = any(isinstance(n, Column) for n in condition.walk())
    if are_strings and isinstance(condition, Predicate) and not has_column:
        raise PredicateError(str(condition), f"no column is named {quoted}; {_CURE}")
    as_strings = _replaced(condition, lambda literal: Literal(literal.value, literal.type))
    if not are_strings and has_column and is_valid(as_strings):
        reason = f"{quoted} may be the column or the string"
        raise PredicateError(str(condition), f"{reason}; {_CURE}")


def _conditions(node: Any) -> Iterator[Value]:
    """Yield the conditions that AND, OR, NOT and the tests of a predicate combine."""
    joined = isinstance(node, (And, Or, Not, IsTrue))
    if joined or (isinstance(node, IsNull) and isinstance(node.operand, Predicate)):
        for part in node.parts():
            yield from _conditions(part)
    else:
        yield node


def _replaced(node: Any, change: Callable[[DoubleQuoted], Value]) -> Any:
    if isinstance(node, DoubleQuoted):
        return change(node)
    parts: tuple[Node, ...] = node.parts()
    return node.rebuild(tuple(_replaced(part, change) for part in parts)) if parts else node
