"""CHECK constraints as a user gives them: names, texts, and what they may say. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError, PredicateError
from lazydelta.expressions import bind_condition
from lazydelta.writer import CONSTRAINT, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.schema import StructType

__all__ = ["constraint_key", "constraint_properties", "constraint_rule"]

_NAME = re.compile(r"[^\W\d]\w*")


def constraint_key(name: str) -> str:
    """Return the property of a constraint; names are told apart without their case.

    >>> constraint_key("Positive")
    'delta.constraints.positive'

    Raises:
        ConfigError: Not a name.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(name or "name", "a constraint's name is letters, digits and underscores")
    return CONSTRAINT + name.lower()


def constraint_rule(name: str, expression: str, schema: StructType) -> Rule:
    """Return what a constraint asks of rows.

    Raises:
        PredicateError: Not a condition, or not one that lazydelta can evaluate.
        ColumnNotFoundError: It names a column that the table has not.
    """
    text = expression.strip()
    if not text:
        raise PredicateError(expression, "a constraint needs a condition")
    test = bind_condition(text, schema)
    return Rule(title=f"CHECK constraint {name!r} ({text})", test=test)


def constraint_properties(constraints: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the properties that hold the constraints, each of them checked against the schema.

    Raises:
        ConfigError: Two constraints of one name.
    """
    found: dict[str, str] = {}
    for name, expression in constraints.items():
        key = constraint_key(name)
        if key in found:
            raise ConfigError(name, "there are two constraints of this name; case is ignored")
        constraint_rule(name, expression, schema)
        found[key] = expression.strip()
    return found
