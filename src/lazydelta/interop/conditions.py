"""One condition of a foreign engine as one of ours, where both mean the same for every row.

A filter that another engine hands over is always applied to the rows by that engine's own rules.
Ours is only used to leave out files and row groups, so it may keep too much and never too little.
Where types or special values (NaN, numbers that do not fit) could make the two differ, there is
no condition at all: `None` everywhere here means "not translated".
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lazydelta.errors import DeltaError
from lazydelta.expr import Constant, Predicate, col, lit
from lazydelta.schema import INTEGER_RANGES, DecimalType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.schema import DataType, StructType

__all__ = ["FLIPPED", "Conditions"]

FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FLOATS = ("float", "double")
_WHOLE_IN_DOUBLE = 2**53
_WHOLE_IN_FLOAT = 2**24
_COLLATIONS = "__COLLATIONS"


class Conditions:
    """Makes conditions on the columns of one table.

    Args:
        schema: The table's logical schema.
        nan_is_greatest: Whether the engine orders NaN above all numbers, as we do; if not, a
            comparison with NaN is false there.
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
            exact: Whether it must hold for the very same rows; else it may hold for more.
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
        """Return `column IN values`, the same rows.

        Args:
            path: The column.
            values: What it may be; none of them is None.
            null_is_false: Whether NULL is in no list, rather than unknown.
        """
        kind = self._type(path)
        if kind is None or str(kind) in _FLOATS:  # hashing engines tell 0.0 from -0.0
            return None
        if not all(_same_meaning(kind, value) and type(value) is not float for value in values):
            return None
        found = col(path).isin(list(values)) if values else Constant(False)
        return found & col(path).is_not_null() if null_is_false else found

    def is_null(self, path: tuple[str, ...]) -> Predicate | None:
        """Return `column IS NULL`."""
        return None if self._type(path) is None else col(path).is_null()

    def is_nan(self, path: tuple[str, ...]) -> Predicate | None:
        """Return whether a number is NaN."""
        if str(self._type(path)) not in _FLOATS:
            return None
        return col(path) == lit(math.nan)

    def is_true(self, path: tuple[str, ...]) -> Predicate | None:
        """Return a boolean column as a condition."""
        if str(self._type(path)) != "boolean":
            return None
        return col(path) == lit(True)

    def starts_with(self, path: tuple[str, ...], prefix: str) -> Predicate | None:
        """Return whether a text begins with another."""
        return col(path).startswith(prefix) if str(self._type(path)) == "string" else None

    def _type(self, path: tuple[str, ...]) -> DataType | None:
        try:
            fields = self._schema.find(path)
        except DeltaError:
            return None
        if tuple(field.name for field in fields) != path:  # others tell upper from lower case
            return None
        if _COLLATIONS in fields[-1].metadata:  # engines compare by bytes, which we must not
            return None
        return fields[-1].type

    def _is_safe(self, op: str, *, exact: bool) -> bool:
        """Whether NaN cannot make the two engines differ in a way that matters.

        Elsewhere `NaN > 1` may be false where ours is true. Then ours keeps more rows; below a
        NOT it would keep fewer.
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
    """Whether engines agree on how a value compares with a column: neither side is rounded."""
    name = str(kind)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if name in INTEGER_RANGES:
        if isinstance(value, float):
            return math.isfinite(value) and abs(value) < _WHOLE_IN_DOUBLE
        return is_whole
    if name in _FLOATS:
        if is_whole:
            return abs(value) <= _WHOLE_IN_FLOAT
        return isinstance(value, float) and not math.isnan(value)
    if isinstance(kind, DecimalType):
        return is_whole or (isinstance(value, Decimal) and value.is_finite())
    if name == "date":
        return isinstance(value, date) and not isinstance(value, datetime)
    if name in ("timestamp", "timestamp_ntz"):
        return isinstance(value, datetime) and (value.tzinfo is not None) == (name == "timestamp")
    expected = {"string": str, "binary": bytes, "boolean": bool}.get(name)
    return expected is not None and isinstance(value, expected)
