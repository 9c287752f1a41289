"""Rewrite pyarrow filters for engines in which NaN equals NaN and is greater than all numbers.

pyarrow follows IEEE 754: a comparison with NaN is false. DataFusion converts its filters to pyarrow
expressions and relies on the result, although its own semantics differ. The rewrite restores them.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta.interop.arrow_expressions import (
    Call,
    Field,
    Literal,
    Node,
    NotUnderstoodError,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["with_nan_greatest"]


def with_nan_greatest(expression: pc.Expression, schema: pa.Schema) -> pc.Expression:
    """Return the filter with NaN as the greatest number; unchanged if it cannot be decoded.

    Args:
        expression: The filter.
        schema: The schema of the filtered rows.
    """
    try:
        _, (pickled,) = expression.__reduce__()
        return _Rewrite(schema).expression(parse(pickled))
    except (NotUnderstoodError, pa.ArrowException, LookupError, TypeError, ValueError):
        return expression


class _Rewrite:
    """Rebuilds an expression, node by node."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def expression(self, node: Node) -> pc.Expression:
        if isinstance(node, Field):
            return pc.field(*node.path)
        if isinstance(node, Literal):
            return pc.scalar(node.scalar)
        if node.name in _COMPARE:
            return self._compared(node)
        if node.name in _LOGIC:
            return _LOGIC[node.name](*map(self.expression, node.args))
        if node.name == "is_in":
            return _is_in(self.expression(node.args[0]), node.options)
        if node.name == "is_null" and not node.options["nan_is_null"].as_py():
            return self.expression(node.args[0]).is_null()
        raise NotUnderstoodError

    def _compared(self, node: Call) -> pc.Expression:  # noqa: PLR0911 - one per comparison
        a, b = map(self.expression, node.args)
        plain = _COMPARE[node.name](a, b)
        if not any(map(self._is_float, node.args)):
            return plain
        a_nan, b_nan = map(self._is_nan, node.args)
        match node.name:
            case "equal":
                return plain | (a_nan & b_nan)
            case "not_equal":
                return plain & ~(a_nan & b_nan)
            case "less":
                return plain | (b_nan & ~a_nan)
            case "greater":
                return plain | (a_nan & ~b_nan)
            case "less_equal":
                return plain | (b_nan & a.is_valid())
            case _:
                return plain | (a_nan & b.is_valid())

    def _is_float(self, node: Node) -> bool:
        if not isinstance(node, Field):
            return False
        kind = self._schema.field(node.path[0]).type
        for name in node.path[1:]:
            kind = kind.field(name).type
        return pt.is_floating(kind)

    def _is_nan(self, node: Node) -> pc.Expression:
        if isinstance(node, Literal):
            value = node.scalar.as_py()
            return pc.scalar(isinstance(value, float) and math.isnan(value))
        expression = self.expression(node)
        return expression.is_nan() if self._is_float(node) else pc.scalar(False)


_COMPARE: dict[str, Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_LOGIC: dict[str, Callable[..., pc.Expression]] = {
    "and_kleene": lambda a, b: a & b,
    "or_kleene": lambda a, b: a | b,
    "invert": lambda a: ~a,
    "is_valid": lambda a: a.is_valid(),
    "is_nan": lambda a: a.is_nan(),
}


def _is_in(column: pc.Expression, options: dict[str, Any]) -> pc.Expression:
    if options["null_matching_behavior"].as_py() != 0:  # pyarrow's own `isin` matches nulls
        raise NotUnderstoodError
    return column.isin(options["value_set"].values)
