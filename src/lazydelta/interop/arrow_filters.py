"""Translate pyarrow filter expressions: the columns they reference, and an implied `Predicate`.

`arrow_expressions` decodes the serialization. Constructs that have no translation are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lazydelta.errors import DeltaError
from lazydelta.expressions.nodes import Constant
from lazydelta.interop.arrow_expressions import (
    Call,
    Field,
    Literal,
    Node,
    NotUnderstoodError,
    parse,
    walk,
)
from lazydelta.interop.predicate_builder import FLIPPED, PredicateBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions import Predicate
    from lazydelta.schema import StructType

__all__ = ["ArrowFilter", "translate_arrow_filter"]

_COMPARE = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MATCH_NULL, _SKIP_NULL = 0, 1
_MICROS = "us"

# Errors that an unknown form of the pickle can cause.
_FOREIGN_ERRORS = (NotUnderstoodError, pa.ArrowException, TypeError, ValueError, LookupError)


@dataclass(frozen=True, slots=True)
class ArrowFilter:
    """The result of translating an expression.

    Attributes:
        columns: The top-level columns it references; None if unknown.
        predicate: True for every row for which the expression is true; None if nothing could be
            translated.
        key: Equal for equal expressions.
    """

    columns: frozenset[str] | None
    predicate: Predicate | None
    key: bytes | None


def translate_arrow_filter(expression: Any, schema: StructType) -> ArrowFilter:
    """Translate an expression over the columns of a table."""
    try:
        _, (buffer,) = expression.__reduce__()
        root = parse(buffer)
    except _FOREIGN_ERRORS:
        return ArrowFilter(None, None, None)
    columns = frozenset(node.path[0] for node in walk(root) if isinstance(node, Field))
    builder = PredicateBuilder(schema, nan_is_greatest=False)
    try:
        predicate = _Translation(builder).where(root, exact=False)
    except (*_FOREIGN_ERRORS, DeltaError):
        predicate = None
    return ArrowFilter(columns, predicate, buffer.to_pybytes())


class _Translation:
    """Translates nodes to predicates.

    With `exact` the predicate must be true for exactly the same rows, as the operand of a NOT
    must. Without it the predicate may be true for more rows, so that an AND can drop an operand
    that has no translation.
    """

    def __init__(self, builder: PredicateBuilder) -> None:
        self._builder = builder

    def where(self, node: Node, *, exact: bool) -> Predicate | None:
        if isinstance(node, Field):
            return self._builder.is_true(node.path)
        if isinstance(node, Literal):
            return _constant(node.scalar)
        if node.name in _COMPARE:
            return self._compare(_COMPARE[node.name], node.args, exact=exact)
        rule = _RULES.get(node.name)
        return None if rule is None else rule(self, node, exact)

    def both(self, node: Call, exact: bool) -> Predicate | None:
        left, right = (self.where(arg, exact=exact) for arg in node.args)
        if left is not None and right is not None:
            return left & right
        if exact:
            return None
        return right if left is None else left

    def either(self, node: Call, exact: bool) -> Predicate | None:
        left, right = (self.where(arg, exact=exact) for arg in node.args)
        return None if left is None or right is None else left | right

    def negated(self, node: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always exact
        inner = self.where(node.args[0], exact=True)
        return None if inner is None else ~inner

    def is_null(self, node: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always exact
        if not isinstance(node.args[0], Field) or _plain(node.options.get("nan_is_null")):
            return None
        return self._builder.is_null(node.args[0].path)

    def is_valid(self, node: Call, exact: bool) -> Predicate | None:
        is_null = self.is_null(node, exact)
        return None if is_null is None else ~is_null

    def is_nan(self, node: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always exact
        field = node.args[0]
        return self._builder.is_nan(field.path) if isinstance(field, Field) else None

    def is_in(self, node: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always exact
        """Translate `is_in`, which treats NULL as a value: true only if the set contains NULL."""
        value_set = _value_set(node)
        if value_set is None:
            return None
        path, values, has_null = value_set
        membership = self._builder.is_in(path, values, null_is_false=True)
        null = self._builder.is_null(path)
        if membership is None or null is None:
            return None
        return membership | null if has_null else membership

    def if_else(self, node: Call, exact: bool) -> Predicate | None:
        """Translate `if_else(is_valid(x), is_in(x), null)`, the form in which DuckDB sends IN.

        Any other `if_else(condition, then, null)` is true only where `then` is true.
        """
        condition, then, other = node.args
        if not isinstance(other, Literal) or other.scalar.is_valid:
            return None
        value_set = _value_set(then)
        if value_set is not None and condition == Call("is_valid", (Field(value_set[0]),), {}):
            path, values, has_null = value_set
            return None if has_null else self._builder.is_in(path, values, null_is_false=False)
        return None if exact else self.where(then, exact=False)

    def starts_with(self, node: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always exact
        field, prefix = node.args[0], _plain(node.options.get("pattern"))
        if not isinstance(field, Field) or _plain(node.options.get("ignore_case")) is not False:
            return None
        prefix = prefix.decode() if isinstance(prefix, bytes) else prefix
        return self._builder.starts_with(field.path, prefix)

    def _compare(self, op: str, args: tuple[Node, ...], *, exact: bool) -> Predicate | None:
        left, right = args
        if isinstance(left, Literal):
            op, left, right = FLIPPED[op], right, left
        if not isinstance(left, Field):
            return None
        if isinstance(right, Field):
            return self._builder.compare_columns(op, left.path, right.path, exact=exact)
        if not isinstance(right, Literal):
            return None
        value = _value(right.scalar)
        if value is NotImplemented:
            return None
        return self._builder.compare(op, left.path, value, exact=exact)


_RULES: dict[str, Callable[[_Translation, Call, bool], Predicate | None]] = {
    "and": _Translation.both,
    "and_kleene": _Translation.both,
    "or": _Translation.either,
    "or_kleene": _Translation.either,
    "invert": _Translation.negated,
    "is_null": _Translation.is_null,
    "is_valid": _Translation.is_valid,
    "is_nan": _Translation.is_nan,
    "is_in": _Translation.is_in,
    "starts_with": _Translation.starts_with,
    "if_else": _Translation.if_else,
}


def _constant(scalar: pa.Scalar) -> Predicate | None:
    if not scalar.is_valid:
        return Constant(None)
    return Constant(scalar.as_py()) if pt.is_boolean(scalar.type) else None


def _value_set(node: Node) -> tuple[tuple[str, ...], list[Any], bool] | None:
    """Return the column of an `is_in`, its values without NULL, and whether NULL is a value."""
    if not isinstance(node, Call) or node.name != "is_in":
        return None
    column, nulls = node.args[0], _plain(node.options.get("null_matching_behavior"))
    if not isinstance(column, Field) or nulls not in (_MATCH_NULL, _SKIP_NULL):
        return None
    items = [_value(item) for item in node.options["value_set"].values]
    if any(value is NotImplemented for value in items):
        return None
    values = [value for value in items if value is not None]
    return column.path, values, nulls == _MATCH_NULL and len(values) < len(items)


def _plain(scalar: pa.Scalar | None) -> Any:
    return None if scalar is None else scalar.as_py()


def _value(scalar: pa.Scalar) -> Any:
    """Return a literal as a Python value, or NotImplemented if the conversion is lossy."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    try:
        if pt.is_timestamp(kind):
            return scalar.cast(pa.timestamp(_MICROS, kind.tz)).as_py()
        if pt.is_dictionary(kind) or pt.is_date64(kind):
            return NotImplemented
        return scalar.as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return NotImplemented
