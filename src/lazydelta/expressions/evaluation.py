"""Evaluate a bound expression over Arrow data.

Semantics, for rows and for statistics alike: three-valued logic, strings by code point, NaN equal
to itself and above all other numbers, timestamps in UTC. Everything is vectorized; the caller
supplies the columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import numpy_dtype
from lazydelta._identity import ById
from lazydelta.errors import InternalError, PredicateError
from lazydelta.expressions.casts import cast
from lazydelta.expressions.coercion import is_float, is_string, type_of
from lazydelta.expressions.evaluation_result import FALSE, NULL, TRUE, Result, both, either
from lazydelta.expressions.functions import constant_positions
from lazydelta.expressions.kernels import GENERAL, KERNELS, add_interval, compare, like
from lazydelta.expressions.kernels.distinct import per_distinct
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
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal, Stat
from lazydelta.schema import PrimitiveType, to_arrow_type
from lazydelta.schema.values import build_array, build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType

__all__ = ["evaluate", "evaluate_checked"]

_TRUTHS = {True: TRUE, False: FALSE, None: NULL}


def evaluate(
    expression: Value, column: Callable[[Column | Stat], pa.Array], length: int
) -> pa.Array:
    """Return the value of a bound expression for each of `length` rows.

    What cannot be computed for a row (overflow, division by zero, a string that does not parse)
    is NULL, as with Spark's `try_` functions. So a filter never depends on which files were
    skipped, and statistics that cannot be computed skip nothing.

    Args:
        expression: Bound, or rewritten over statistics.
        column: Returns the values of a column or statistic.
        length: The number of rows.
    """
    return _Evaluation(column, length, checked=False).array(expression).values


def evaluate_checked(
    expression: Value, column: Callable[[Column | Stat], pa.Array], length: int
) -> Result:
    """Return the value of a bound expression, and the rows for which Spark's ANSI mode fails."""
    return _Evaluation(column, length, checked=True).array(expression)


class _Evaluation:
    """One pass over one batch. Caches the columns."""

    def __init__(
        self, column: Callable[[Column | Stat], pa.Array], length: int, *, checked: bool
    ) -> None:
        self.column = column
        self.length = length
        self.checked = checked
        self.fetched: dict[Value, pa.Array] = {}

    def array(self, node: Value) -> Result:
        """Return the result with one value per row."""
        found = self.result(node)
        if isinstance(found.values, pa.Scalar):
            return Result(pa.repeat(found.values, self.length), found.failed)
        return found

    def result(self, node: Value) -> Result:
        """Return the result; its values are a scalar if the node is constant."""
        found = self.predicate(node) if isinstance(node, Predicate) else self.value(node)
        return found if self.checked or found.failed is None else Result(found.values)

    # --- predicates

    def predicate(self, node: Predicate) -> Result:  # noqa: C901, PLR0911 - one per node
        match node:
            case Compare(op, left, right):
                return self.compare(op, left, right)
            case And() | Or():
                return self.logical(node)
            case Not(inner):
                return self.apply(pc.invert, inner)
            case In(tested, options):
                return self.apply(lambda values: _is_in(values, options, type_of(tested)), tested)
            case AnyWithin(low, high, options):
                return Result(self.any_within(low, high, options))
            case Like(value, pattern, escape):
                return self.apply(lambda strings: like(strings, pattern, escape), value)
            case IsNull(Column() | Stat() as operand):  # of any type
                return Result(pc.is_null(_combined(self.column(operand))))
            case IsNull(operand):
                return self.apply(pc.is_null, operand)
            case IsTrue(inner):
                return self.apply(lambda found: pc.coalesce(found, FALSE), inner)
            case Constant(value):
                return Result(_TRUTHS[value])
        raise InternalError(f"{type(node).__name__} cannot be evaluated")

    def apply(self, kernel: Callable[[pa.Array], pa.Array], node: Value) -> Result:
        given = self.array(node)
        return Result(kernel(given.values)).failing(given.failed)

    def logical(self, node: And | Or) -> Result:
        """Join conditions; a failure does not matter where an earlier condition decides."""
        is_and = isinstance(node, And)
        join = pc.and_kleene if is_and else pc.or_kleene
        result = self.array(node.arms[0])
        for arm in node.arms[1:]:
            more = self.array(arm)
            failed = result.failed
            if more.failed is not None:
                settled = pc.equal(result.values, FALSE if is_and else TRUE)
                undecided = pc.invert(pc.coalesce(settled, FALSE))
                failed = either(failed, both(more.failed, undecided))
            result = Result(join(result.values, more.values)).failing(failed)
        return result

    def compare(self, op: str, left: Value, right: Value) -> Result:
        first, second = self.result(left), self.result(right)
        a, b, kind = first.values, second.values, type_of(left)
        if op == "<=>":
            same = compare("=", a, b, kind)
            nulls = pc.and_(pc.is_null(a), pc.is_null(b))
            found = pc.or_(nulls, pc.and_kleene(same, pc.is_valid(same)))
        else:
            found = compare(op, a, b, kind)
        if first.failed is None and second.failed is None:
            return Result(found)
        return Result(found).failing(either(first.failed, second.failed))

    def any_within(self, low: Value, high: Value, options: tuple[Literal, ...]) -> pa.BooleanArray:
        """Find the first option not below `low`; it matches if it is not above `high`."""
        lows, (choices, _) = self.array(low).values, _options(ById(options), type_of(low))
        known = pc.coalesce(lows, choices[0])  # nulls are restored below
        places = np.searchsorted(_sortable(choices), _sortable(known), side="left")
        inside = places < len(choices)
        nearest = choices.take(_int64s(np.where(inside, places, 0)))
        reached = compare("<=", nearest, self.array(high).values, type_of(low))
        found = pc.and_kleene(reached, _booleans(inside))
        return pc.if_else(pc.is_valid(lows), found, NULL)

    # --- values

    def value(self, node: Value) -> Result:  # noqa: PLR0911 - one per node
        match node:
            case Column() | Stat():
                values = self.fetched.get(node)
                if values is None:
                    self.fetched[node] = values = _as_type(self.column(node), type_of(node))
                return Result(values)
            case Literal():
                return Result(_scalar(node))
            case Cast(inner, kind, safe):
                given = self.array(inner)
                found = cast(given.values, type_of(inner), kind)
                return (Result(found.values) if safe else found).failing(given.failed)
            case Call("case", args):
                return self.case(args)
            case Call("coalesce", args):
                return self.coalesce(args)
            case Call("+" | "-" as sign, (time, Call("interval", (number, unit)))):
                return self.shift(sign, time, number, unit)
            case Call(".", (inner, Literal(name))):
                return self.apply(lambda values: _field(values, name), inner)
            case Call():
                return self.call(node)
        raise InternalError(f"{type(node).__name__} cannot be evaluated")

    def call(self, node: Call) -> Result:
        constants = constant_positions(node.name, len(node.args))
        given_at = [node.args[index] for index in constants]
        settings = [arg.value if isinstance(arg, Literal) else None for arg in given_at]
        if None in settings and node.name in GENERAL:
            given = [self.array(arg) for arg in node.args]
            values = [one.values for one in given]
            result = per_distinct(GENERAL[node.name], values, type_of(node))
        else:
            given = [self.array(arg) for at, arg in enumerate(node.args) if at not in constants]
            result = KERNELS[node.name]([one.values for one in given], settings, type_of(node))
        for one in given:
            result = result.failing(one.failed)
        return result

    def shift(self, sign: str, time: Value, number: Value, unit: Value) -> Result:
        """Add an interval to timestamps, or subtract it."""
        given = self.array(time)
        steps, name = (getattr(part, "value", None) for part in (number, unit))
        signed = int(str(steps)) * (1 if sign == "+" else -1)
        return add_interval(given.values, signed, str(name)).failing(given.failed)

    def case(self, args: tuple[Value, ...]) -> Result:
        """Choose results from the last branch to the first, so that an earlier one wins."""
        chosen = self.array(args[-1])
        for condition, result in zip(args[-3::-2], args[-2::-2], strict=True):
            test, value = self.array(condition), self.array(result)
            taken = pc.coalesce(test.values, FALSE)
            values = pc.if_else(taken, value.values, chosen.values)
            failed = either(both(value.failed, taken), both(chosen.failed, pc.invert(taken)))
            chosen = Result(values).failing(either(failed, test.failed))
        return chosen

    def coalesce(self, args: tuple[Value, ...]) -> Result:
        result = self.array(args[0])
        for arg in args[1:]:
            more = self.array(arg)
            failed = either(result.failed, both(more.failed, result.values.is_null()))
            result = Result(pc.coalesce(result.values, more.values)).failing(failed)
        return result


@lru_cache(maxsize=4096)
def _scalar(literal: Literal) -> pa.Scalar:
    if literal.value is None:  # of any type, nested ones too
        return pa.nulls(1, to_arrow_type(literal.type))[0]
    return build_scalar(literal.value, literal.type)


def _is_in(values: pa.Array, options: tuple[Literal, ...], kind: DataType) -> pa.BooleanArray:
    choices, with_null = _options(ById(options), kind)
    found = pc.is_in(values, value_set=choices)
    if not with_null and not values.null_count:
        return found
    unknown = pc.is_null(values)
    return pc.if_else(pc.or_(unknown, pc.invert(found)) if with_null else unknown, NULL, found)


@lru_cache(maxsize=64)
def _options(literals: ById[tuple[Literal, ...]], kind: DataType) -> tuple[pa.Array, bool]:
    """Return the values of options that are not NULL, and whether one is."""
    options = literals.value
    values = [option.value for option in options if option.value is not None]
    with_null = len(values) < len(options)
    if is_float(kind) and 0 in values:  # a hash lookup distinguishes the two zeros, SQL does not
        values = sorted({repr(v): v for v in (*values, 0.0, -0.0)}.values())
    return build_array(values, kind), with_null


def _as_type(found: pa.Array, kind: DataType) -> pa.Array:
    """Cast a column to the type of its values; decimals may be wider."""
    found = _combined(found)
    if not isinstance(kind, PrimitiveType):
        target = to_arrow_type(kind)
        return found if found.type == target else found.cast(target)
    if not is_string(kind) and kind.name.startswith("string"):
        raise PredicateError(str(kind), "strings with a collation cannot be compared")
    target = to_arrow_type(kind)
    return found if found.type == target else found.cast(target, safe=False)


def _field(values: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(values, [values.type.get_field_index(name)])


def _combined(found: pa.Array | pa.ChunkedArray) -> pa.Array:
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _sortable(values: pa.Array) -> np.ndarray:
    """Return values without nulls as numpy can sort them."""
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        data = np.frombuffer(values.buffers()[1] or b"", numpy_dtype(values.type))
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
