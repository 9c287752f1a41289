"""pyarrow's filter expressions: which columns they name, and what they mean as a `Predicate`.

How expressions are written down is `arrow_parts`'s business. Whatever is not understood is left
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lazydelta.errors import DeltaError
from lazydelta.expr import Constant
from lazydelta.interop.arrow_parts import (
    Call,
    Field,
    Literal,
    NotUnderstoodError,
    Part,
    parse,
    walk,
)
from lazydelta.interop.conditions import FLIPPED, Conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expr import Predicate
    from lazydelta.schema import StructType

__all__ = ["ArrowFilter", "read_filter"]

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


# What a form of the pickle that we have not seen yet could run into.
_FOREIGN_ERRORS = (NotUnderstoodError, pa.ArrowException, TypeError, ValueError, LookupError)


@dataclass(frozen=True, slots=True)
class ArrowFilter:
    """What is known of an expression.

    Attributes:
        columns: The top-level columns it needs; None if that cannot be told.
        predicate: True wherever the expression is; None if nothing could be translated.
        key: The same for two equal expressions.
    """

    columns: frozenset[str] | None
    predicate: Predicate | None
    key: bytes | None


def read_filter(expression: Any, schema: StructType) -> ArrowFilter:
    """Return what an expression over the columns of a table needs and means."""
    try:
        _, (buffer,) = expression.__reduce__()
        root = parse(buffer)
    except _FOREIGN_ERRORS:
        return ArrowFilter(None, None, None)
    columns = frozenset(part.path[0] for part in walk(root) if isinstance(part, Field))
    conditions = Conditions(schema, nan_is_greatest=False)
    try:
        predicate = _Translation(conditions).where(root, exact=False)
    except (*_FOREIGN_ERRORS, DeltaError):
        predicate = None
    return ArrowFilter(columns, predicate, buffer.to_pybytes())


# --- meaning ------------------------------------------------------------------------------------


class _Translation:
    """Turns parts into predicates.

    `exact` asks for the same truth on every row, which a NOT needs below it; without it, a
    predicate may be true for more rows, so that a condition that is not known can be left out of
    an AND.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions

    def where(self, part: Part, *, exact: bool) -> Predicate | None:
        if isinstance(part, Field):
            return self._conditions.is_true(part.path)
        if isinstance(part, Literal):
            return _constant(part.scalar)
        if part.name in _COMPARE:
            return self._compare(_COMPARE[part.name], part.args, exact=exact)
        rule = _RULES.get(part.name)
        return None if rule is None else rule(self, part, exact)

    def both(self, part: Call, exact: bool) -> Predicate | None:
        left, right = (self.where(arg, exact=exact) for arg in part.args)
        if left is not None and right is not None:
            return left & right
        if exact:
            return None
        return right if left is None else left

    def either(self, part: Call, exact: bool) -> Predicate | None:
        left, right = (self.where(arg, exact=exact) for arg in part.args)
        return None if left is None or right is None else left | right

    def negated(self, part: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        inner = self.where(part.args[0], exact=True)
        return None if inner is None else ~inner

    def is_null(self, part: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        if not isinstance(part.args[0], Field) or _plain(part.options.get("nan_is_null")):
            return None
        return self._conditions.is_null(part.args[0].path)

    def is_valid(self, part: Call, exact: bool) -> Predicate | None:
        found = self.is_null(part, exact)
        return None if found is None else ~found

    def is_nan(self, part: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        field = part.args[0]
        return self._conditions.is_nan(field.path) if isinstance(field, Field) else None

    def is_in(self, part: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        """Translate `is_in`, for which NULL is just another value, and mostly in no set."""
        given = _value_set(part)
        if given is None:
            return None
        path, values, has_null = given
        found = self._conditions.is_in(path, values, null_is_false=True)
        null = self._conditions.is_null(path)
        if found is None or null is None:
            return None
        return found | null if has_null else found

    def if_else(self, part: Call, exact: bool) -> Predicate | None:
        """Translate `if_else(is_valid(x), is_in(x), null)`, which is how DuckDB sends an IN.

        Of any other `if_else(condition, then, null)` it is known that it is true only where
        `then` is.
        """
        condition, then, other = part.args
        if not isinstance(other, Literal) or other.scalar.is_valid:
            return None
        given = _value_set(then)
        if given is not None and condition == Call("is_valid", (Field(given[0]),), {}):
            path, values, has_null = given
            return None if has_null else self._conditions.is_in(path, values, null_is_false=False)
        return None if exact else self.where(then, exact=False)

    def starts_with(self, part: Call, exact: bool) -> Predicate | None:  # noqa: ARG002 - always
        field, prefix = part.args[0], _plain(part.options.get("pattern"))
        if not isinstance(field, Field) or _plain(part.options.get("ignore_case")) is not False:
            return None
        prefix = prefix.decode() if isinstance(prefix, bytes) else prefix
        return self._conditions.starts_with(field.path, prefix)

    def _compare(self, op: str, args: tuple[Part, ...], *, exact: bool) -> Predicate | None:
        left, right = args
        if isinstance(left, Literal):
            op, left, right = FLIPPED[op], right, left
        if not isinstance(left, Field):
            return None
        if isinstance(right, Field):
            return self._conditions.compare_columns(op, left.path, right.path, exact=exact)
        if not isinstance(right, Literal):
            return None
        value = _value(right.scalar)
        if value is NotImplemented:
            return None
        return self._conditions.compare(op, left.path, value, exact=exact)


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


def _value_set(part: Part) -> tuple[tuple[str, ...], list[Any], bool] | None:
    """Return the column of an `is_in`, its values, and whether NULL is one of them."""
    if not isinstance(part, Call) or part.name != "is_in":
        return None
    column, nulls = part.args[0], _plain(part.options.get("null_matching_behavior"))
    if not isinstance(column, Field) or nulls not in (_MATCH_NULL, _SKIP_NULL):
        return None
    given = [_value(item) for item in part.options["value_set"].values]
    if any(value is NotImplemented for value in given):
        return None
    values = [value for value in given if value is not None]
    return column.path, values, nulls == _MATCH_NULL and len(values) < len(given)


def _plain(scalar: pa.Scalar | None) -> Any:
    return None if scalar is None else scalar.as_py()


def _value(scalar: pa.Scalar) -> Any:
    """Return a literal as a Python value, or NotImplemented if that would change it."""
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
