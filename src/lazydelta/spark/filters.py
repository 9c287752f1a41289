"""Filters that Spark offers to a data source, as predicates of ours.

They only serve to leave out files, row groups and rows early: every filter is also left to Spark,
which trusts a source that keeps one back. So what could mean something else here than there is
not translated, and costs nothing but speed.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource as ds
from pyspark.sql import types as t

from lazydelta.errors import DeltaError
from lazydelta.expr import Predicate, bind, col, lit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.schema import StructType

__all__ = ["to_predicate"]

_FLOATS = (t.FloatType, t.DoubleType)
_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_COMPARED: dict[type[ds.Filter], Callable[[Any, Any], Predicate]] = {
    ds.EqualTo: lambda column, value: column == value,
    ds.EqualNullSafe: lambda column, value: column.eq_null_safe(value),
    ds.GreaterThan: lambda column, value: column > value,
    ds.GreaterThanOrEqual: lambda column, value: column >= value,
    ds.LessThan: lambda column, value: column < value,
    ds.LessThanOrEqual: lambda column, value: column <= value,
}


def to_predicate(
    filters: Sequence[ds.Filter], shown: t.StructType, table: StructType
) -> Predicate | None:
    """Return what the filters together demand, as far as it can be said; None if nothing can.

    Args:
        filters: All of which hold for the rows wanted.
        shown: The columns as Spark has them.
        table: The columns as we have them.
    """
    known = [found for each in filters if (found := _translated(each, shown, table)) is not None]
    return reduce(and_, known) if known else None


def _translated(given: ds.Filter, shown: t.StructType, table: StructType) -> Predicate | None:
    found = _condition(given, shown)
    if found is not None:
        try:
            bind(found, table, ())
        except DeltaError:  # it does not fit our schema (a collation, say): Spark alone applies it
            return None
    return found


def _condition(given: ds.Filter, shown: t.StructType) -> Predicate | None:  # noqa: PLR0911
    """Return one filter as a predicate that holds for the same rows."""
    if isinstance(given, ds.Not):
        inner = _condition(given.child, shown)
        return None if inner is None else ~inner
    path = getattr(given, "attribute", ())
    kind = _type(path, shown)
    if kind is None:
        return None
    if isinstance(given, ds.IsNull):
        return col(path).is_null()
    if isinstance(given, ds.IsNotNull):
        return col(path).is_not_null()
    value: Any = getattr(given, "value", None)
    if isinstance(given, ds.In):
        values = [one for one in value or () if one is not None]
        if len(values) != len(value or ()) or not all(_fits(one, kind) for one in values):
            return None
        return col(path).isin(values)
    if isinstance(given, ds.StringStartsWith):
        return col(path).startswith(value) if isinstance(kind, t.StringType) else None
    if isinstance(given, ds.EqualNullSafe) and value is None:
        return col(path).is_null()
    compare = _COMPARED.get(type(given))
    if compare is None or value is None or not _fits(value, kind):
        return None
    return compare(col(path), lit(value))


def _type(path: tuple[str, ...], shown: t.StructType) -> t.DataType | None:
    """Return the type of a column, which may lie in structs; None if there is none."""
    kind: t.DataType = shown
    for name in path:
        if not isinstance(kind, t.StructType) or name not in kind.names:
            return None
        kind = kind[name].dataType
    return kind if path else None


def _fits(value: Any, kind: t.DataType) -> bool:  # noqa: PLR0911 - one per type
    """Whether a value is of the column's own type, so that neither side would be converted."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, _WHOLE):
        return is_whole
    if isinstance(kind, _FLOATS):
        return isinstance(value, float) and not math.isnan(value)
    if isinstance(kind, t.DecimalType):
        return is_whole or (isinstance(value, Decimal) and value.is_finite())
    if isinstance(kind, t.DateType):
        return isinstance(value, date) and not isinstance(value, datetime)
    if isinstance(kind, t.TimestampType):
        return isinstance(value, datetime) and value.tzinfo is not None
    if isinstance(kind, t.TimestampNTZType):
        return isinstance(value, datetime) and value.tzinfo is None
    expected = {t.StringType: str, t.BinaryType: bytes, t.BooleanType: bool}.get(type(kind))
    return expected is not None and isinstance(value, expected)
