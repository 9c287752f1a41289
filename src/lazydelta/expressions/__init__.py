"""Predicates: how they are said, what they mean, and what they say about a file's statistics.

Pure: no files, no log. One tree serves every door, and every engine that evaluates it.
"""

from __future__ import annotations

from lazydelta.expressions.arrow import evaluate
from lazydelta.expressions.binding import bind, split_conjuncts
from lazydelta.expressions.build import as_predicate, col, lit
from lazydelta.expressions.formula import Formula, bind_formula, constant_formula, equality_formula
from lazydelta.expressions.functions import DATE_UNITS
from lazydelta.expressions.generated import derivations
from lazydelta.expressions.nodes import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    Stat,
    Value,
)
from lazydelta.expressions.patterns import fixed_prefix, split_pattern
from lazydelta.expressions.skip import guarded, to_skipping

__all__ = [
    "DATE_UNITS",
    "And",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "Constant",
    "Formula",
    "In",
    "IsNull",
    "IsTrue",
    "Like",
    "Literal",
    "Not",
    "Or",
    "Predicate",
    "Stat",
    "Value",
    "as_predicate",
    "bind",
    "bind_formula",
    "col",
    "constant_formula",
    "derivations",
    "equality_formula",
    "evaluate",
    "fixed_prefix",
    "guarded",
    "lit",
    "split_conjuncts",
    "split_pattern",
    "to_skipping",
]
