"""What a predicate means on Arrow data: true, false or unknown (null) for each row.

This is the reference meaning, for rows and for statistics alike: SQL's three-valued logic, texts
by code point, NaN equal to itself and above all other numbers, times in UTC. Everything is
vectorised; where a value comes from is the caller's business.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import numpy_kind
from lazydelta.errors import InternalError, PredicateError
from lazydelta.expressions.compute import call_function, cast_values
from lazydelta.expressions.functions import is_float, is_text, type_of
from lazydelta.expressions.nodes import (
    And,
    AnyWithin,
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
from lazydelta.expressions.patterns import fixed_prefix, to_regex
from lazydelta.schema import PrimitiveType, build_array, build_scalar, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.schema import DataType

__all__ = ["compare_values", "evaluate", "evaluate_value", "like_values"]

_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_BOOLEAN = PrimitiveType("boolean")


def evaluate(
    predicate: Predicate, column: Callable[[Column | Stat], pa.Array], length: int
) -> pa.BooleanArray:
    """Return the truth of a bound predicate for each of `length` rows; null is unknown.

    Args:
        predicate: Bound, or rewritten over statistics.
        column: Gives the values of a column or statistic.
        length: How many rows there are.
    """
    return _Evaluation(column, length).predicate(predicate)


def evaluate_value(
    value: Value, column: Callable[[Column | Stat], pa.Array], length: int
) -> pa.Array:
    """Return a bound value for each of `length` rows."""
    return _Evaluation(column, length).array(value)


class _Evaluation:
    """One pass over one batch; remembers the columns it has fetched."""

    def __init__(self, column: Callable[[Column | Stat], pa.Array], length: int) -> None:
        self.column = column
        self.length = length
        self.fetched: dict[Value, pa.Array] = {}

    # --- predicates

    def predicate(self, node: Predicate) -> pa.BooleanArray:  # noqa: C901, PLR0911 - one per node
        match node:
            case And(arms):
                return self.fold(pc.and_kleene, arms)
            case Or(arms):
                return self.fold(pc.or_kleene, arms)
            case Not(inner):
                return pc.invert(self.predicate(inner))
            case Compare(op, left, right):
                return self.compare(op, left, right)
            case In(value, options):
                return self.is_in(value, options)
            case AnyWithin(low, high, options):
                return self.any_within(low, high, options)
            case Like(value, pattern, escape):
                return like_values(self.array(value), pattern, escape)
            case IsNull(operand):
                if isinstance(operand, Predicate):
                    return pc.is_null(self.predicate(operand))
                if isinstance(operand, (Column, Stat)):  # of any type, known or not
                    return pc.is_null(_whole(self.column(operand)))
                return pc.is_null(self.array(operand))
            case IsTrue(inner):
                found = self.predicate(inner)
                return pc.and_kleene(found, pc.is_valid(found))
            case Constant(value):
                return pa.repeat(build_scalar(value, _BOOLEAN), self.length)
        raise InternalError(f"there is no meaning for {type(node).__name__}")

    def fold(self, join: Callable[..., pa.Array], arms: tuple[Predicate, ...]) -> pa.BooleanArray:
        result = self.predicate(arms[0])
        for arm in arms[1:]:
            result = join(result, self.predicate(arm))
        return result

    def compare(self, op: str, left: Value, right: Value) -> pa.BooleanArray:
        a, b = self.value(left), self.value(right)
        kind = type_of(left)
        if kind == _BOOLEAN:
            a, b = a.cast(pa.int8()), b.cast(pa.int8())
        if op == "<=>":
            both = pc.and_(pc.is_null(a), pc.is_null(b))
            same = compare_values("=", a, b, kind)
            return self.spread(pc.or_(both, pc.and_kleene(same, pc.is_valid(same))))
        return self.spread(compare_values(op, a, b, kind))

    def is_in(self, value: Value, options: tuple[Literal, ...]) -> pa.BooleanArray:
        found = pc.is_in(self.array(value), value_set=_options(options, type_of(value)))
        unknown = pc.is_null(self.array(value))
        if any(option.value is None for option in options):
            unknown = pc.or_(unknown, pc.invert(found))
        return pc.if_else(unknown, build_scalar(None, _BOOLEAN), found)

    def any_within(self, low: Value, high: Value, options: tuple[Literal, ...]) -> pa.BooleanArray:
        """Find the first option from `low` up; it is within if it does not pass `high`."""
        lows, choices = self.array(low), _options(options, type_of(low))
        known = pc.coalesce(lows, choices[0])  # nulls are put back below
        places = np.searchsorted(_sortable(choices), _sortable(known), side="left")
        inside = places < len(choices)
        nearest = choices.take(_int64s(np.where(inside, places, 0)))
        reached = compare_values("<=", nearest, self.array(high), type_of(low))
        found = pc.and_kleene(reached, _booleans(inside))
        return pc.if_else(pc.is_valid(lows), found, build_scalar(None, _BOOLEAN))

    # --- values

    def array(self, node: Value) -> pa.Array:
        return self.spread(self.value(node))

    def value(self, node: Value) -> pa.Array | pa.Scalar:
        match node:
            case Literal():
                return _scalar(node)
            case Column() | Stat():
                if node not in self.fetched:
                    self.fetched[node] = _as_type(self.column(node), type_of(node))
                return self.fetched[node]
            case Cast(inner, kind):
                return cast_values(self.array(inner), type_of(inner), kind)
            case Call():
                return call_function(node, self.array)
        raise InternalError(f"there is no meaning for {type(node).__name__}")

    def spread(self, found: pa.Array | pa.Scalar) -> pa.Array:
        return pa.repeat(found, self.length) if isinstance(found, pa.Scalar) else found


def compare_values(op: str, a: Any, b: Any, kind: DataType) -> Any:
    """Compare; floats in the order of SQL, where NaN equals itself and is the greatest."""
    plain = _COMPARE[op](a, b)
    if not is_float(kind):
        return plain
    nan_a, nan_b = pc.is_nan(a), pc.is_nan(b)
    if op in ("=", "!="):
        both = pc.and_(nan_a, nan_b)
        return pc.or_(plain, both) if op == "=" else pc.and_(plain, pc.invert(both))
    greater, other = (nan_a, nan_b) if op in (">", ">=") else (nan_b, nan_a)
    more = pc.and_(greater, pc.invert(other)) if op in ("<", ">") else greater
    return pc.or_(plain, more)


def like_values(texts: pa.Array, pattern: str, escape: str) -> pa.BooleanArray:
    """Return which texts match a pattern of LIKE."""
    prefix, after = fixed_prefix(pattern, escape)
    if after == "%":
        return pc.starts_with(texts, prefix)
    return pc.match_substring_regex(texts, to_regex(pattern, escape))


@lru_cache(maxsize=4096)
def _scalar(literal: Literal) -> pa.Scalar:
    return build_scalar(literal.value, literal.type)


@lru_cache(maxsize=64)
def _options(options: tuple[Literal, ...], kind: DataType) -> pa.Array:
    values = [option.value for option in options if option.value is not None]
    if is_float(kind) and 0 in values:  # the look-up tells the two zeros apart, SQL does not
        values = sorted({repr(v): v for v in (*values, 0.0, -0.0)}.values())
    return build_array(values, kind)


def _as_type(found: pa.Array, kind: DataType) -> pa.Array:
    """Bring a column to the type its values are compared in; decimals may be wider."""
    found = _whole(found)
    if not isinstance(kind, PrimitiveType):
        return found
    if not is_text(kind) and kind.name.startswith("string"):
        raise PredicateError(str(kind), "texts with a collation cannot be compared")
    target = to_arrow_type(kind)
    return found if found.type == target else found.cast(target, safe=False)


def _whole(found: pa.Array | pa.ChunkedArray) -> pa.Array:
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _sortable(values: pa.Array) -> np.ndarray:
    """Return values, none of them null, as numpy can sort them."""
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        data = np.frombuffer(values.buffers()[1] or b"", numpy_kind(values.type))
        return data[values.offset : values.offset + len(values)]
    result = np.empty(len(values), dtype=object)
    result[:] = values.to_pylist()
    return result


def _int64s(values: np.ndarray) -> pa.Array:
    fixed = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(fixed), [None, pa.py_buffer(fixed)])


def _booleans(values: np.ndarray) -> pa.BooleanArray:
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])
