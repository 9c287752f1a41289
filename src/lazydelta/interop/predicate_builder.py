"""Build predicates from the conditions of another engine, where both have the same semantics.

The other engine always applies its own filter to the rows. Our predicate only prunes files and row
groups, so it may keep more rows than the filter, never fewer. Where types or special values (NaN,
numbers out of range) could make the two differ, no predicate is built. `None` always means "not
translated".
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lazydelta.errors import DeltaError
from lazydelta.expressions import Predicate, col, lit
from lazydelta.expressions.nodes import Constant
from lazydelta.schema import DecimalType
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.schema import DataType, StructType

__all__ = ["FLIPPED", "PredicateBuilder"]

FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FLOATS = ("float", "double")
_EXACT_IN_DOUBLE = 2**53
_EXACT_IN_FLOAT = 2**24
_COLLATIONS = "__COLLATIONS"


class PredicateBuilder:
    """Builds predicates on the columns of one table.

    Args:
        schema: The table's logical schema.
        nan_is_greatest: Whether the engine orders NaN above all numbers, as Delta does. If not,
            its comparisons with NaN are false.
    """

    def __init__(self, schema: StructType, *, nan_is_greatest: bool) -> None:
        self._schema = schema
        self._nan_is_greatest = nan_is_greatest

    def compare(
        self, op: str, path: tuple[str, ...], value: Any, *, exact: bool
    ) -> Predicate | None:
        """Return `column op value`.

        Args:
            op: One of `=`, `!=`, `<`, `<=`, `>`, `>=`.
            path: The column.
            value: A Python value; None is NULL.
            exact: Whether it must be true for exactly the same rows; if not, for those and more.
        """
        kind = self._type(path)
        if kind is None:
            return None
        if value is None:
            return Constant(None)
        if not _same_meaning(kind, value):
            return None
        if str(kind) in _FLOATS and not self._is_safe(op, exact=exact):
            return None
        column, constant = col(path), lit(value)
        return _COMPARE[op](column, constant)

    def compare_columns(
        self, op: str, left: tuple[str, ...], right: tuple[str, ...], *, exact: bool
    ) -> Predicate | None:
        """Return `left op right` for two columns of one type."""
        kind = self._type(left)
        if kind is None or kind != self._type(right):
            return None
        if str(kind) in _FLOATS and (exact or op == "!=") and not self._nan_is_greatest:
            return None
        return _COMPARE[op](col(left), col(right))

    def is_in(
        self, path: tuple[str, ...], values: Sequence[Any], *, null_is_false: bool
    ) -> Predicate | None:
        """Return `column IN values`, exact.

        Args:
            path: The column.
            values: The list, without None.
            null_is_false: Whether `NULL IN (...)` is false rather than NULL.
        """
        kind = self._type(path)
        if kind is None or str(kind) in _FLOATS:  # hashing engines distinguish 0.0 from -0.0
            return None
        if not all(_same_meaning(kind, value) and type(value) is not float for value in values):
            return None
        membership = col(path).isin(list(values)) if values else Constant(False)
        return membership & col(path).is_not_null() if null_is_false else membership

    def is_null(self, path: tuple[str, ...]) -> Predicate | None:
        """Return `column IS NULL`."""
        return None if self._type(path) is None else col(path).is_null()

    def is_nan(self, path: tuple[str, ...]) -> Predicate | None:
        """Return `column` is NaN."""
        if str(self._type(path)) not in _FLOATS:
            return None
        return col(path) == lit(math.nan)

    def is_true(self, path: tuple[str, ...]) -> Predicate | None:
        """Return a boolean column as a predicate."""
        if str(self._type(path)) != "boolean":
            return None
        return col(path) == lit(True)

    def starts_with(self, path: tuple[str, ...], prefix: str) -> Predicate | None:
        """Return `column LIKE 'prefix%'`."""
        return col(path).startswith(prefix) if str(self._type(path)) == "string" else None

    def _type(self, path: tuple[str, ...]) -> DataType | None:
        try:
            fields = self._schema.find(path)
        except DeltaError:
            return None
        if tuple(field.name for field in fields) != path:  # engines are case-sensitive
            return None
        if _COLLATIONS in fields[-1].metadata:  # engines ignore the collation
            return None
        return fields[-1].type

    def _is_safe(self, op: str, *, exact: bool) -> bool:
        """Return whether NaN cannot make our predicate prune a matching row.

        `NaN > 1` is true in Delta and may be false in the engine. Then our predicate keeps more
        rows; below a NOT it would keep fewer.
        """
        return self._nan_is_greatest or not exact or op in ("=", "!=")


_COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _same_meaning(kind: DataType, value: Any) -> bool:  # noqa: PLR0911 - one per type
    """Return whether all engines compare a value and the column equally: no side is rounded."""
    name = str(kind)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if name in INTEGER_RANGES:
        if isinstance(value, float):
            return math.isfinite(value) and abs(value) < _EXACT_IN_DOUBLE
        return is_integer
    if name in _FLOATS:
        if is_integer:
            return abs(value) <= _EXACT_IN_FLOAT
        return isinstance(value, float) and not math.isnan(value)
    if isinstance(kind, DecimalType):
        return is_integer or (isinstance(value, Decimal) and value.is_finite())
    if name == "date":
        return isinstance(value, date) and not isinstance(value, datetime)
    if name in ("timestamp", "timestamp_ntz"):
        return isinstance(value, datetime) and (value.tzinfo is not None) == (name == "timestamp")
    expected = {"string": str, "binary": bytes, "boolean": bool}.get(name)
    return expected is not None and isinstance(value, expected)
