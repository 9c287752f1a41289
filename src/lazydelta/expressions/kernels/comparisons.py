"""Comparisons of values: NaN equals itself and is the greatest; strings compare by code point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions.evaluation_result import FALSE, Result
from lazydelta.expressions.nodes.patterns import fixed_prefix, to_regex
from lazydelta.schema import PrimitiveType, from_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.schema import DataType

    Kernel: TypeAlias = Callable[[list[pa.Array], list[Any], DataType], Result]

__all__ = ["COMPARISON_KERNELS", "compare", "like"]

_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compare(op: str, a: Any, b: Any, kind: DataType) -> Any:
    """Compare arrays or scalars; for floats, NaN equals itself and is the greatest."""
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    if name == "boolean":
        a, b = a.cast(pa.int8()), b.cast(pa.int8())
    plain = _COMPARE[op](a, b)
    if name not in ("float", "double"):
        return plain
    nan_a, nan_b = pc.is_nan(a), pc.is_nan(b)
    if op in ("=", "!="):
        both = pc.and_(nan_a, nan_b)
        return pc.or_(plain, both) if op == "=" else pc.and_(plain, pc.invert(both))
    greater, other = (nan_a, nan_b) if op in (">", ">=") else (nan_b, nan_a)
    more = pc.and_(greater, pc.invert(other)) if op in ("<", ">") else greater
    return pc.or_(plain, more)


def like(strings: pa.Array, pattern: str, escape: str) -> pa.BooleanArray:
    """Return which strings match a LIKE pattern."""
    prefix, after = fixed_prefix(pattern, escape)
    if after == "%":
        return pc.starts_with(strings, prefix)
    return pc.match_substring_regex(strings, to_regex(pattern, escape))


def _extreme(op: str) -> Kernel:
    """Return the greatest or least value that is not null."""

    def run(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
        best = given[0]
        for values in given[1:]:
            taken = pc.or_kleene(compare(op, values, best, kind), best.is_null())
            best = pc.coalesce(pc.if_else(taken, values, best), best)
        return Result(best)

    return run


def _nullif(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    """Return null where two values are equal, else the first, or the third if they were cast."""
    compared = from_arrow_type(given[0].type) if len(given) == 3 else kind
    same = pc.coalesce(compare("=", given[0], given[1], compared), FALSE)
    kept = given[2 if len(given) == 3 else 0]
    null = pa.nulls(1, kept.type)[0]
    return Result(pc.if_else(same, null, kept))


COMPARISON_KERNELS: dict[str, Kernel] = {
    "greatest": _extreme(">"),
    "least": _extreme("<"),
    "nullif": _nullif,
    "isnan": lambda given, _, __: Result(pc.coalesce(pc.is_nan(given[0]), FALSE)),
}
