"""Predicates: how they are said, what they mean, and what they say about a file's statistics.

Pure: no files, no log. One tree serves every door, and every engine that evaluates it.
"""

from __future__ import annotations

from lazydelta.expr.arrow import evaluate
from lazydelta.expr.binding import bind, split_conjuncts
from lazydelta.expr.build import as_predicate, col, lit, partition_eq
from lazydelta.expr.generated import derivations
from lazydelta.expr.nodes import Column, Constant, Predicate, Stat
from lazydelta.expr.skip import guarded, to_skipping

__all__ = [
    "Column",
    "Constant",
    "Predicate",
    "Stat",
    "as_predicate",
    "bind",
    "col",
    "derivations",
    "evaluate",
    "guarded",
    "lit",
    "partition_eq",
    "split_conjuncts",
    "to_skipping",
]
