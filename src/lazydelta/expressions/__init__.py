"""SQL expressions: parse, bind to a schema, evaluate on Arrow data, rewrite for data skipping.

Pure: no files, no log. One tree (`expressions.nodes`, a door of its own), one grammar, one binder
and one evaluator for filters, CHECK constraints, invariants, generated columns and defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.expressions.binding import bind
    from lazydelta.expressions.build import as_predicate, col, lit
    from lazydelta.expressions.evaluation import evaluate
    from lazydelta.expressions.expression import (
        BoundExpression,
        bind_condition,
        bind_equality,
        bind_expression,
        bind_literal,
    )
    from lazydelta.expressions.functions import DATE_UNITS
    from lazydelta.expressions.generated import derivations
    from lazydelta.expressions.logic import split_conjuncts
    from lazydelta.expressions.nodes import Predicate
    from lazydelta.expressions.skipping_rewrite import guarded, to_skipping

__all__ = [
    "DATE_UNITS",
    "BoundExpression",
    "Predicate",
    "as_predicate",
    "bind",
    "bind_condition",
    "bind_equality",
    "bind_expression",
    "bind_literal",
    "col",
    "derivations",
    "evaluate",
    "guarded",
    "lit",
    "split_conjuncts",
    "to_skipping",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "binding": ("bind",),
        "build": ("as_predicate", "col", "lit"),
        "evaluation": ("evaluate",),
        "expression": (
            "BoundExpression",
            "bind_condition",
            "bind_equality",
            "bind_expression",
            "bind_literal",
        ),
        "functions": ("DATE_UNITS",),
        "generated": ("derivations",),
        "logic": ("split_conjuncts",),
        "nodes": ("Predicate",),
        "skipping_rewrite": ("guarded", "to_skipping"),
    },
)
