"""Ways to say a predicate in Python: operators on `col(...)`, tuples, and equality maps.

All of them, and SQL text, end in the nodes of `expressions.nodes`; `as_predicate` is the one door.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import orjson

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    Value,
)
from lazydelta.expressions.parse import parse_path, parse_predicate, parse_type
from lazydelta.schema import DataType, DecimalType, PrimitiveType, to_days, to_micros

__all__ = ["Operand", "as_predicate", "col", "lit", "partition_eq"]

Where = Predicate | str | Sequence[Any] | Mapping[str, Any] | None


class Operand:
    """A value in a predicate under construction: `col("a") > 1` gives a `Predicate`.

    It is not a node itself, because its `==` builds a comparison instead of making one.
    """

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Value) -> None:
        self.node = node

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self, other: object) -> Predicate:
        return self._compare("<", other)

    def __le__(self, other: object) -> Predicate:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Predicate:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Predicate:
        return self._compare(">=", other)

    def __add__(self, other: object) -> Operand:
        return Operand(Call("+", (self.node, _value(other))))

    def __sub__(self, other: object) -> Operand:
        return Operand(Call("-", (self.node, _value(other))))

    def __neg__(self) -> Operand:
        return Operand(Call("-", (self.node,)))

    def __repr__(self) -> str:
        return f"col({str(self.node)!r})" if isinstance(self.node, Column) else str(self.node)

    def eq_null_safe(self, other: object) -> Predicate:
        """Compare with SQL's `<=>`: NULL equals NULL, and the result is never unknown."""
        return self._compare("<=>", other)

    def isin(self, options: Iterable[object]) -> Predicate:
        """Whether the value is one of `options`."""
        if isinstance(options, str | bytes | Mapping) or not isinstance(options, Iterable):
            raise PredicateError(f"{self.node} in {options!r}", "its value must be a list")
        return _in(self.node, options)

    def is_null(self) -> Predicate:
        """Whether the value is NULL."""
        return IsNull(self.node)

    def is_not_null(self) -> Predicate:
        """Whether the value is not NULL."""
        return Not(IsNull(self.node))

    def between(self, low: object, high: object) -> Predicate:
        """Whether the value lies between `low` and `high`, both included."""
        return And((self._compare(">=", low), self._compare("<=", high)))

    def like(self, pattern: str, escape: str = "\\") -> Predicate:
        """Whether the text matches: `%` is any text, `_` any character."""
        return Like(self.node, pattern, escape)

    def startswith(self, prefix: str) -> Predicate:
        """Whether the text starts with `prefix`, taken literally."""
        if not isinstance(prefix, str):
            raise PredicateError(repr(prefix), "a prefix is a text")
        plain = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return Like(self.node, f"{plain}%")

    def cast(self, kind: str) -> Operand:
        """Return the value as another type, named as in SQL: `date`, `decimal(10,2)`."""
        return Operand(Cast(self.node, parse_type(kind)))

    def call(self, name: str, *args: object) -> Operand:
        """Apply a function: `col("ts").call("year")`, `col("s").call("substring", 1, 3)`."""
        return Operand(Call(name.lower(), (self.node, *map(_value, args))))

    def _compare(self, op: str, other: object) -> Predicate:
        return Compare(op, self.node, _value(other))


def col(name: str | Sequence[str]) -> Operand:
    """Name a column; a dot reaches into a struct, backticks keep dots in a name.

    >>> print((col("trip.fare") > 50) & col("`the.day`").is_not_null())
    trip.fare > 50 AND NOT (`the.day` IS NULL)
    """
    path = parse_path(name) if isinstance(name, str) else name
    if not isinstance(path, Sequence) or not all(isinstance(part, str) for part in path):
        raise PredicateError(repr(name), "a column is named by a text, or by a list of them")
    return Operand(Column(tuple(path)))


def lit(value: object) -> Operand:
    """Turn a Python value into a constant.

    A datetime with a zone is a `timestamp`, one without a `timestamp_ntz`.
    """
    return Operand(_literal(value))


def partition_eq(column: str, value: object) -> Predicate:
    """Whether a partition column has this value; None and the empty text mean NULL."""
    return _partition_compare(col(column).node, "=", value)


def as_predicate(where: Where | Operand) -> Predicate | None:
    """Turn any accepted form of a filter into a predicate; None means no filter.

    >>> print(as_predicate([("day", "=", "2026-01-01"), ("hour", "in", ["1", "2"])]))
    day = '2026-01-01' AND hour IN ('1', '2')
    >>> print(as_predicate('{"day": "2026-01-01", "hour": null}'))
    day = '2026-01-01' AND hour IS NULL

    Args:
        where: A `Predicate`; Spark SQL text; a map of column to value (or the JSON text of one),
            all equal; a list of `(column, op, value)` tuples, all true; or a list of such lists,
            one of them true.

    Raises:
        PredicateError: The text cannot be parsed, or the form is none of these.
    """
    if where is None or isinstance(where, Predicate):
        return where
    if isinstance(where, Operand):
        return Compare("=", where.node, _literal(True))
    if isinstance(where, str):
        if where.lstrip().startswith("{"):
            return _equality_map(_read_map(where))
        return parse_predicate(where)
    if isinstance(where, Mapping):
        return _equality_map(where)
    if isinstance(where, Sequence) and not isinstance(where, (bytes, bytearray)):
        return _disjunction(where)
    raise PredicateError(repr(where), "give text, a Predicate, a map or a list of tuples")


# --- equality maps and tuples -------------------------------------------------------------------


def _read_map(text: str) -> Mapping[str, Any]:
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PredicateError(text, f"it begins like JSON but is not ({error})") from None
    return parsed


def _equality_map(given: Mapping[str, Any]) -> Predicate | None:
    arms: list[Predicate] = []
    for name, value in given.items():
        operand = col(str(name))
        if value is None:
            arms.append(operand.is_null())
        elif isinstance(value, (list, tuple)):
            arms.append(operand.isin(value))
        else:
            arms.append(operand == value)
    return _joined(And, arms) if arms else None


def _disjunction(where: Sequence[Any]) -> Predicate | None:
    """Read DNF: tuples are ANDed, lists of tuples ORed."""
    if not where:
        return None
    if all(isinstance(item, tuple) for item in where):
        return _joined(And, [_condition(item) for item in where])
    if all(isinstance(item, list) for item in where):
        return _joined(Or, [_joined(And, [_condition(item) for item in arm]) for arm in where])
    raise PredicateError(repr(where), "a filter list holds only tuples, or only lists of tuples")


def _condition(item: Any) -> Predicate:
    if not (isinstance(item, (tuple, list)) and len(item) == 3 and isinstance(item[0], str)):
        raise PredicateError(repr(item), "a condition is a tuple (column, operator, value)")
    name, op, value = item
    return _partition_compare(col(name).node, str(op).strip().lower(), value)


def _partition_compare(column: Value, op: str, value: object) -> Predicate:
    """Compare as the `files(partition_filters=...)` of delta-rs does: '' stands for NULL."""
    op = {"==": "=", "<>": "!="}.get(op, op)
    if op in ("in", "not in"):
        if isinstance(value, str) or not isinstance(value, (Sequence, set, frozenset)):
            raise PredicateError(f"{column} {op} {value!r}", "its value must be a list")
        given = [item for item in value if not _is_null(item)]
        found: Predicate = _in(column, given)
        if len(given) != len(value):
            found = Or((found, IsNull(column)))
        return found if op == "in" else Not(found)
    if op not in ("=", "!=", "<", "<=", ">", ">="):
        raise PredicateError(f"{column} {op} {value!r}", f"there is no operator {op!r}")
    if not _is_null(value):
        return Compare(op, column, _value(value))
    if op not in ("=", "!="):
        raise PredicateError(f"{column} {op} {value!r}", "NULL can only be = or !=")
    return IsNull(column) if op == "=" else Not(IsNull(column))


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value)


def _in(column: Value, options: Iterable[object]) -> Predicate:
    return In(column, tuple(_literal(option) for option in options))


def _joined(kind: type[And | Or], arms: Sequence[Predicate]) -> Predicate:
    if not arms:
        return Constant(kind is And)
    return arms[0] if len(arms) == 1 else kind(tuple(arms))


# --- Python values ------------------------------------------------------------------------------


def _value(given: object) -> Value:
    if isinstance(given, Operand):
        return given.node
    return given if isinstance(given, Value) else _literal(given)


def _literal(given: object) -> Literal:
    value, kind = _typed(given)
    return Literal(value, kind)


def _typed(given: object) -> tuple[Any, DataType]:  # noqa: C901, PLR0911, PLR0912 - one per type
    match given:
        case Operand():
            if isinstance(given.node, Literal):
                return given.node.value, given.node.type
        case Literal(value, kind):
            return value, kind
        case None:
            return None, PrimitiveType("void")
        case bool():
            return given, PrimitiveType("boolean")
        case int():
            return given, PrimitiveType("long")
        case float():
            return given, PrimitiveType("double")
        case str():
            return given, PrimitiveType("string")
        case bytes() | bytearray():
            return bytes(given), PrimitiveType("binary")
        case Decimal() if given.is_finite():
            digits, exponent = given.as_tuple().digits, int(given.as_tuple().exponent)
            scale = max(-exponent, 0)
            return given, DecimalType(max(len(digits) + max(exponent, 0), scale), scale)
        case datetime() if given != given:  # noqa: PLR0124 - pandas.NaT is one, and NULL
            return None, PrimitiveType("void")
        case datetime():
            return to_micros(given), PrimitiveType("timestamp" if given.tzinfo else "timestamp_ntz")
        case date():
            return to_days(given), PrimitiveType("date")
    item = getattr(given, "item", None)  # numpy scalars
    if callable(item) and type(given).__module__ == "numpy":
        return _typed(item())
    raise PredicateError(repr(given), f"a {type(given).__name__} cannot be a constant")
