"""The expression tree: one set of node classes for every way to write an expression.

Nodes are immutable: they compare by structure, hash and pickle. The same nodes are an expression
over rows (`Column`) and, after `to_skipping`, over file statistics (`Stat`). They hold no schema
and no data. This sub-package is a door of its own, for rooms that translate expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.base import Node, Value
    from lazydelta.expressions.nodes.patterns import (
        after_prefix,
        fixed_prefix,
        split_pattern,
        to_regex,
    )
    from lazydelta.expressions.nodes.predicates import (
        And,
        AnyWithin,
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
    from lazydelta.expressions.nodes.sql import quote_path
    from lazydelta.expressions.nodes.value_nodes import (
        Call,
        Cast,
        Column,
        DoubleQuoted,
        Literal,
        Stat,
    )

__all__ = [
    "And",
    "AnyWithin",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "Constant",
    "DoubleQuoted",
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
    "after_prefix",
    "fixed_prefix",
    "quote_path",
    "split_pattern",
    "to_regex",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "base": ("Node", "Value"),
        "patterns": ("after_prefix", "fixed_prefix", "split_pattern", "to_regex"),
        "predicates": (
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
        ),
        "sql": ("quote_path",),
        "value_nodes": ("Call", "Cast", "Column", "DoubleQuoted", "Literal", "Stat"),
    },
)
