"""pyarrow's filters for engines in which NaN equals itself and is greater than every number.

In pyarrow a comparison with NaN is false, as in IEEE 754. DataFusion hands its filters over as
pyarrow's and trusts the answer, though it means them otherwise: here they get its meaning.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta.interop.arrow_parts import Call, Field, Literal, NotUnderstoodError, Part, parse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["with_nan_greatest"]


def with_nan_greatest(expression: pc.Expression, schema: pa.Schema) -> pc.Expression:
    """Return a filter with the same meaning, but for NaN; one that is not understood, as it is.

    Args:
        expression: The filter.
        schema: Of the rows that it is for.
    """
    try:
        _, (pickled,) = expression.__reduce__()
        return _Rebuilt(schema).expression(parse(pickled))
    except (NotUnderstoodError, pa.ArrowException, LookupError, TypeError, ValueError):
        return expression


class _Rebuilt:
    """Puts an expression together again, part by part."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def expression(self, part: Part) -> pc.Expression:
        if isinstance(part, Field):
            return pc.field(*part.path)
        if isinstance(part, Literal):
            return pc.scalar(part.scalar)
        if part.name in _COMPARE:
            return self._compared(part)
        if part.name in _LOGIC:
            return _LOGIC[part.name](*map(self.expression, part.args))
        if part.name == "is_in":
            return _is_in(self.expression(part.args[0]), part.options)
        if part.name == "is_null" and not part.options["nan_is_null"].as_py():
            return self.expression(part.args[0]).is_null()
        raise NotUnderstoodError

    def _compared(self, part: Call) -> pc.Expression:  # noqa: PLR0911 - one for each comparison
        a, b = map(self.expression, part.args)
        plain = _COMPARE[part.name](a, b)
        if not any(map(self._is_float, part.args)):
            return plain
        a_nan, b_nan = map(self._is_nan, part.args)
        match part.name:
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

    def _is_float(self, part: Part) -> bool:
        if not isinstance(part, Field):
            return False
        kind = self._schema.field(part.path[0]).type
        for name in part.path[1:]:
            kind = kind.field(name).type
        return pt.is_floating(kind)

    def _is_nan(self, part: Part) -> pc.Expression:
        if isinstance(part, Literal):
            value = part.scalar.as_py()
            return pc.scalar(isinstance(value, float) and math.isnan(value))
        found = self.expression(part)
        return found.is_nan() if self._is_float(part) else pc.scalar(False)


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
