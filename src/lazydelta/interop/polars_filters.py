"""Translate Polars filter expressions to a `Predicate`.

The input is the JSON serialization of an expression after Polars has resolved all types. Polars
orders NaN above all numbers, as Delta does. Constructs that have no translation are dropped.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from lazydelta.errors import DeltaError
from lazydelta.expressions.nodes import Constant
from lazydelta.interop.predicate_builder import FLIPPED, PredicateBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions import Predicate
    from lazydelta.schema import StructType

__all__ = ["translate_polars_filter"]

_COMPARE = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_AND, _OR = ("And", "LogicalAnd"), ("Or", "LogicalOr")
_PLAIN = ("Int8", "Int16", "Int32", "Int64", "Float64", "String", "Boolean")
_BETWEEN = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_PER_SECOND = {"Milliseconds": 1_000, "Microseconds": 1_000_000, "Nanoseconds": 1_000_000_000}
_UNKNOWN = object()
_FOREIGN_ERRORS = (TypeError, ValueError, LookupError, OverflowError, pa.ArrowException, DeltaError)


def translate_polars_filter(expression: Any, schema: StructType) -> Predicate | None:
    """Return a predicate that is true for every row for which the expression is; None if unknown.

    Args:
        expression: A `polars.Expr` over the columns of the table.
        schema: The table's logical schema.
    """
    try:
        tree = orjson.loads(expression.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001 - an expression that cannot be serialized is not translated
        return None
    builder = PredicateBuilder(schema, nan_is_greatest=True)
    try:
        return _where(tree, builder, exact=False)
    except _FOREIGN_ERRORS:
        return None


def _where(node: Any, builder: PredicateBuilder, *, exact: bool) -> Predicate | None:
    ((kind, body),) = node.items()
    if kind == "Column":
        return builder.is_true((body,))
    if kind == "Literal":
        value = _value(node)
        return Constant(value) if value is None or isinstance(value, bool) else None
    if kind == "BinaryExpr":
        return _binary(body, builder, exact=exact)
    if kind == "Function":
        return _function(body, builder)
    return None


def _binary(body: dict[str, Any], builder: PredicateBuilder, *, exact: bool) -> Predicate | None:
    op, left, right = body["op"], body["left"], body["right"]
    if op in _COMPARE:
        return _compare(_COMPARE[op], left, right, builder)
    if op not in (*_AND, *_OR):
        return None
    first, second = (_where(side, builder, exact=exact) for side in (left, right))
    if first is not None and second is not None:
        return first & second if op in _AND else first | second
    if op in _OR or exact:
        return None
    return second if first is None else first


def _function(body: dict[str, Any], builder: PredicateBuilder) -> Predicate | None:
    function, inputs = body["function"], body["input"]
    name = function.get("Boolean") or function.get("StringExpr")
    if name == "Not":
        inner = _where(inputs[0], builder, exact=True)
        return None if inner is None else ~inner
    path = _column(inputs[0])
    if path is None:
        return None
    if isinstance(name, dict):
        return _parametrized(name, path, inputs, builder)
    if name == "StartsWith":
        prefix = _value(inputs[1])
        return builder.starts_with(path, prefix) if isinstance(prefix, str) else None
    return _null_test(name, path, builder)


def _null_test(
    name: str | None, path: tuple[str, ...], builder: PredicateBuilder
) -> Predicate | None:
    if name == "IsNan":
        return builder.is_nan(path)
    if name not in ("IsNull", "IsNotNull"):
        return None
    is_null = builder.is_null(path)
    return is_null if is_null is None or name == "IsNull" else ~is_null


def _parametrized(
    name: dict[str, Any], path: tuple[str, ...], inputs: list[Any], builder: PredicateBuilder
) -> Predicate | None:
    if "IsBetween" in name:
        low, high = _BETWEEN[name["IsBetween"]["closed"]]
        first = _compare(low, inputs[0], inputs[1], builder)
        second = _compare(high, inputs[0], inputs[2], builder)
        return None if first is None or second is None else first & second
    if "IsIn" in name and name["IsIn"] == {"nulls_equal": False}:
        values = _list(inputs[1])
        if values is None or None in values:
            return None
        return builder.is_in(path, values, null_is_false=False)
    return None


def _compare(op: str, left: Any, right: Any, builder: PredicateBuilder) -> Predicate | None:
    if "Literal" in left:
        op, left, right = FLIPPED[op], right, left
    path, other = _column(left), _column(right)
    if path is None:
        return None
    if other is not None:
        return builder.compare_columns(op, path, other, exact=True)
    value = _value(right)
    return None if value is _UNKNOWN else builder.compare(op, path, value, exact=True)


def _column(node: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the path of a column or of a struct field."""
    if "Column" in node:
        return (node["Column"],)
    function = node.get("Function", {})
    field = function.get("function", {}).get("StructExpr", {})
    if isinstance(field, dict) and "FieldByName" in field:
        parent = _column(function["input"][0])
        return None if parent is None else (*parent, field["FieldByName"])
    return None


def _value(node: dict[str, Any]) -> Any:
    """Return a constant as a Python value."""
    scalar = node.get("Literal", {}).get("Scalar", _UNKNOWN)
    if scalar is _UNKNOWN:
        return _UNKNOWN
    if scalar == "Null" or (isinstance(scalar, dict) and "Null" in scalar):
        return None
    ((kind, value),) = scalar.items()
    read = _VALUES.get(kind)
    if read is None or value is None:  # JSON has no NaN: it is serialized as null
        return _UNKNOWN
    return read(value)


def _datetime(value: tuple[int, str, str | None]) -> Any:
    ticks, unit, zone = value
    micros, rest = divmod(ticks * 1_000_000, _PER_SECOND[unit])
    timestamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    if rest:
        return _UNKNOWN
    return timestamp if zone is not None else timestamp.replace(tzinfo=None)


def _decimal(value: tuple[int, int, int]) -> Decimal:
    unscaled, _, scale = value
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


_VALUES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_PLAIN, lambda value: value),
    "Float32": lambda value: float(
        np.float32(value)
    ),  # serialized as the shortest decimal of a float32
    "Binary": bytes,
    "Date": lambda days: date(1970, 1, 1) + timedelta(days=days),
    "Datetime": _datetime,
    "Decimal": _decimal,
}


def _list(node: dict[str, Any]) -> list[Any] | None:
    """Return the values of a list literal, serialized as an Arrow IPC stream of one column."""
    raw = node.get("Literal", {}).get("Scalar", {}).get("List")
    if raw is None:
        return None
    column = pa.ipc.open_stream(bytes(raw)).read_all().column(0)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    return column.to_pylist()
