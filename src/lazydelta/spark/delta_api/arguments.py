"""Arguments of the methods: types are validated, and columns become SQL."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ArgumentError
from lazydelta.spark.column_text import column_sql
from lazydelta.statements import tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "as_assignments",
    "as_condition",
    "as_names",
    "as_sql",
    "check_type",
    "qualifiers",
    "without_alias",
]

_CURE = "has no SQL text that means the same: pass a SQL string instead"


def check_type(name: str, value: object, kind: type, shown: str) -> None:
    """Refuse a value of another type; True is no integer."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ArgumentError(name, f"needs to be {shown} but got '{type(value)}'")


def as_names(given: Iterable[object], what: str) -> tuple[str, ...]:
    """Return names that are given one by one, or as one list.

    Raises:
        ArgumentError: One is no string.
    """
    names: tuple[Any, ...] = tuple(given)
    if len(names) == 1 and isinstance(names[0], list | tuple):
        names = tuple(names[0])
    for name in names:
        check_type(what, name, str, "a string")
    return names


def as_condition(condition: object, name: str = "condition") -> str | None:
    """Return a condition as SQL; None for none.

    Raises:
        ArgumentError: It is neither a string nor a column that has SQL text.
    """
    return None if condition is None else as_sql(condition, name)


def as_assignments(values: object, name: str) -> dict[str, str]:
    """Return the expressions of an update or insert as SQL, by column.

    Raises:
        ArgumentError: They are missing, or no mapping of names to strings or columns.
    """
    if values is None:
        raise ArgumentError(f"'{name}'", "cannot be None")
    if not isinstance(values, Mapping):
        raise ArgumentError(f"'{name}'", f"must be a dict of strings, not {type(values)}")
    for key, value in values.items():
        if not isinstance(key, str):
            raise ArgumentError(f"Keys of dict in '{name}'", f"must contain only strings: {key!r}")
        if not isinstance(value, str) and not _is_column(value):
            reason = f"must contain only Spark SQL Columns or strings: {value!r}"
            raise ArgumentError(f"Values of dict in '{name}'", reason)
    return {key: as_sql(value, name) for key, value in values.items()}


def as_sql(expression: object, name: str) -> str:
    """Return a SQL string, or the SQL of a column.

    Raises:
        ArgumentError: It is neither, or the column has no SQL text: a column of a DataFrame
            (`df.id`, where `col("id")` has), Python functions, lambdas, binary literals.
    """
    if isinstance(expression, str):
        return expression
    if not _is_column(expression):
        reason = f"must be a Spark SQL Column or a string, not {type(expression)}"
        raise ArgumentError(name, reason)
    sql = column_sql(expression)
    if sql is None:
        raise ArgumentError(f"{name}: {str(expression)[:100]}", _CURE)
    return sql


def _is_column(value: object) -> bool:
    return all(hasattr(value, name) for name in ("isNull", "eqNullSafe", "cast"))


def qualifiers(expressions: Iterable[str]) -> list[str]:
    """Return the names before a dot in SQL expressions, each once."""
    found: dict[str, None] = {}
    for sql in expressions:
        parts = list(tokens(sql, "spark"))
        for before, dot in pairwise(parts):
            if before.is_name and dot.says("."):
                found[before.name] = None
    return list(found)


def without_alias(column: str, alias: str | None) -> str:
    """Return the name of a column without the alias of its table."""
    before, dot, name = column.partition(".")
    is_alias = alias is not None and before.strip("`").lower() == alias.lower()
    return name if dot and is_alias else column
