"""Parse and validate CHECK constraints that a user declares. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError, PredicateError
from lazydelta.expressions import bind_condition
from lazydelta.writer.enforcement import Constraint
from lazydelta.writer.properties import CONSTRAINT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.schema import StructType

__all__ = ["constraint_key", "constraint_properties", "parse_constraint"]

_NAME = re.compile(r"[^\W\d]\w*")


def constraint_key(name: str) -> str:
    """Return the property key of a constraint; names are case-insensitive.

    >>> constraint_key("Positive")
    'delta.constraints.positive'

    Raises:
        ConfigError: An invalid name.
    """
    if not _NAME.fullmatch(name):
        reason = "a constraint name consists of letters, digits and underscores"
        raise ConfigError(name or "name", reason)
    return CONSTRAINT_PREFIX + name.lower()


def parse_constraint(name: str, expression: str, schema: StructType) -> Constraint:
    """Return the constraint of a SQL condition.

    Raises:
        PredicateError: Not a condition, or not one that lazydelta can evaluate.
        ColumnNotFoundError: The table does not have a column of the condition.
    """
    sql = expression.strip()
    if not sql:
        raise PredicateError(expression, "a constraint needs a condition")
    test = bind_condition(sql, schema)
    return Constraint(title=f"CHECK constraint {name!r} ({sql})", test=test)


def constraint_properties(constraints: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the table properties that store constraints, validated against the schema.

    Raises:
        ConfigError: Two constraints with the same name.
    """
    properties: dict[str, str] = {}
    for name, expression in constraints.items():
        key = constraint_key(name)
        if key in properties:
            raise ConfigError(name, "two constraints have this name; names are case-insensitive")
        parse_constraint(name, expression, schema)
        properties[key] = expression.strip()
    return properties
