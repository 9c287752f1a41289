"""Predicates in Python: operators on `col(...)`, tuples, and mappings of column to value.

In all of them None means "is null": `col("a") == None`, `("a", "=", None)` and `{"a": None}` are
`a IS NULL`; `!= None` is `a IS NOT NULL`; a list with None also matches nulls, and `not in` such a
list does not. Other operators refuse None. SQL strings, and `lit(None)`, keep SQL's NULL.
`as_predicate` accepts every form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import orjson

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes.base import Value
from lazydelta.expressions.nodes.predicates import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal
from lazydelta.expressions.parser import parse_path, parse_predicate, parse_type
from lazydelta.expressions.statement_time import pinned
from lazydelta.schema import DataType, DecimalType, PrimitiveType
from lazydelta.schema.values import INTEGER_RANGES, to_days, to_micros

__all__ = ["Operand", "as_predicate", "col", "lit"]

_VOID = PrimitiveType("void")

Where = Predicate | str | Sequence[Any] | Mapping[str, Any] | None


class Operand:
    """A value in a predicate under construction: `col("a") > 1` gives a `Predicate`.

    It is not a node itself, because its `==` builds a comparison instead of comparing. None means
    "is null" in `==`, `!=` and `isin`.
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

    def __mul__(self, other: object) -> Operand:
        return Operand(Call("*", (self.node, _value(other))))

    def __truediv__(self, other: object) -> Operand:
        return Operand(Call("/", (self.node, _value(other))))

    def __mod__(self, other: object) -> Operand:
        return Operand(Call("%", (self.node, _value(other))))

    def __neg__(self) -> Operand:
        return Operand(Call("-", (self.node,)))

    def __bool__(self) -> bool:
        msg = f"{self!r} has no truth value in Python: compare it, and combine with & | ~"
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"col({str(self.node)!r})" if isinstance(self.node, Column) else str(self.node)

    def eq_null_safe(self, other: object) -> Predicate:
        """Compare with SQL's `<=>`: NULL equals NULL, and the result is never unknown."""
        return self._compare("<=>", other)

    def isin(self, options: Iterable[object]) -> Predicate:
        """Whether the value is one of `options`; None among them also matches NULL."""
        if isinstance(options, str | bytes | Mapping) or not isinstance(options, Iterable):
            raise PredicateError(f"{self.node} in {options!r}", "its value must be a list")
        return _in(self.node, list(options))

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
        """Whether the string matches: `%` is any string, `_` any character."""
        return Like(self.node, pattern, escape)

    def startswith(self, prefix: str) -> Predicate:
        """Whether the string starts with `prefix`, taken literally."""
        if not isinstance(prefix, str):
            raise PredicateError(repr(prefix), "a prefix is a string")
        plain = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return Like(self.node, f"{plain}%")

    def cast(self, kind: str) -> Operand:
        """Return the value as another type, named as in SQL: `date`, `decimal(10,2)`."""
        return Operand(Cast(self.node, parse_type(kind)))

    def call(self, name: str, *args: object) -> Operand:
        """Apply a function: `col("ts").call("year")`, `col("s").call("substring", 1, 3)`."""
        return Operand(Call(name.lower(), (self.node, *map(_value, args))))

    def _compare(self, op: str, other: object) -> Predicate:
        return _compare(op, self.node, other)


def col(name: str | Sequence[str]) -> Operand:
    """Name a column; a dot reaches into a struct, backticks keep dots in a name.

    >>> print((col("trip.fare") > 50) & col("`the.day`").is_not_null())
    trip.fare > 50 AND NOT (`the.day` IS NULL)
    """
    path = parse_path(name) if isinstance(name, str) else name
    if not isinstance(path, Sequence) or not all(isinstance(part, str) for part in path):
        raise PredicateError(repr(name), "a column is named by a string, or by a list of strings")
    return Operand(Column(tuple(path)))


def lit(value: object) -> Operand:
    """Turn a Python value into a literal; None is SQL's NULL, which equals nothing.

    A datetime with a zone is a `timestamp`, one without a `timestamp_ntz`.
    """
    return Operand(_literal(value))


def as_predicate(where: Where | Operand, *, now: int | None = None) -> Predicate | None:
    """Turn any accepted form of a filter into a predicate; None means no filter.

    >>> print(as_predicate([("day", "=", "2026-01-01"), ("hour", "in", ["1", "2"])]))
    day = '2026-01-01' AND hour IN ('1', '2')
    >>> print(as_predicate('{"day": "2026-01-01", "hour": null}'))
    day = '2026-01-01' AND hour IS NULL

    Args:
        where: A `Predicate`; a Spark SQL string; a mapping of column to value, all equal; a list of
            `(column, op, value)` tuples, all true; a list of such lists, one of them true; or the
            JSON of such a mapping or list.
        now: The time of the statement, which `current_timestamp()` in SQL becomes: microseconds
            since 1970; None is the time of this call.

    Raises:
        PredicateError: The string cannot be parsed, or the form is none of these.
    """
    if where is None or isinstance(where, Predicate):
        return where
    if isinstance(where, Operand):
        return Compare("=", where.node, _literal(True))
    if isinstance(where, str):
        if where.lstrip().startswith(("{", "[")):
            return as_predicate(_read_json(where))
        predicate: Predicate = pinned(parse_predicate(where), now)
        return predicate
    if isinstance(where, Mapping):
        return _equality_map(where)
    if isinstance(where, Sequence) and not isinstance(where, (bytes, bytearray)):
        return _disjunction(where)
    raise PredicateError(
        repr(where), "give an SQL string, a Predicate, a mapping or a list of tuples"
    )


# --- mappings and tuples -------------------------------------------------------------------


def _read_json(json: str) -> Mapping[str, Any] | list[Any]:
    """Return the mapping or the list of tuples of a JSON string, which has no tuples."""
    try:
        parsed = orjson.loads(json)
    except orjson.JSONDecodeError as error:
        raise PredicateError(json, f"it begins like JSON but is not ({error})") from None
    if isinstance(parsed, dict):
        return parsed
    is_conjunction = all(
        isinstance(item, list) and item and isinstance(item[0], str) for item in parsed
    )
    return [tuple(item) for item in parsed] if is_conjunction else parsed


def _equality_map(given: Mapping[str, Any]) -> Predicate | None:
    arms = [
        col(str(name)).isin(value) if isinstance(value, (list, tuple)) else col(str(name)) == value
        for name, value in given.items()
    ]
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
    return _tuple_condition(col(name).node, str(op).strip().lower(), value)


def _tuple_condition(column: Value, op: str, value: object) -> Predicate:
    """Compare; as in the partition filters of delta-rs, the empty string too means NULL."""
    op = {"==": "=", "<>": "!="}.get(op, op)
    if op in ("in", "not in"):
        if isinstance(value, str) or not isinstance(value, (Sequence, set, frozenset)):
            raise PredicateError(f"{column} {op} {value!r}", "its value must be a list")
        membership = _in(column, [_none_if_empty(item) for item in value])
        return membership if op == "in" else Not(membership)
    if op not in ("=", "!=", "<", "<=", ">", ">="):
        raise PredicateError(f"{column} {op} {value!r}", f"there is no operator {op!r}")
    return _compare(op, column, _none_if_empty(value))


def _none_if_empty(value: object) -> object:
    return None if isinstance(value, str) and not value else value


def _compare(op: str, left: Value, right: object) -> Predicate:
    """Compare with a Python value or an operand; None means "is null"."""
    if not _is_none(right):
        return Compare(op, left, _value(right))
    if op == "<=>":
        return Compare(op, left, Literal(None, _VOID))
    if op not in ("=", "!="):
        raise PredicateError(f"{left} {op} {right!r}", "None can only be compared with = or !=")
    return IsNull(left) if op == "=" else Not(IsNull(left))


def _in(column: Value, options: Sequence[object]) -> Predicate:
    given = tuple(_literal(option) for option in options if not _is_none(option))
    membership = In(column, given)
    if len(given) == len(options):
        return membership
    return Or((membership, IsNull(column))) if given else IsNull(column)


def _is_none(value: object) -> bool:
    """Whether a value is None, or the missing timestamp of pandas."""
    return value is None or (isinstance(value, datetime) and value != value)  # noqa: PLR0124


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
            return None, _VOID
        case bool():
            return given, PrimitiveType("boolean")
        case int():
            return _integer(given)
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
            return None, _VOID
        case datetime():
            return to_micros(given), PrimitiveType("timestamp" if given.tzinfo else "timestamp_ntz")
        case date():
            return to_days(given), PrimitiveType("date")
    item = getattr(given, "item", None)  # numpy scalars
    if callable(item) and type(given).__module__ == "numpy":
        return _typed(item())
    raise PredicateError(repr(given), f"a {type(given).__name__} cannot be a constant")


def _integer(given: int) -> tuple[Any, DataType]:
    """Return an integer in the first type that holds it, as SQL's integer literals."""
    for name in ("integer", "long"):
        low, high = INTEGER_RANGES[name]
        if low <= given <= high:
            return given, PrimitiveType(name)
    return Decimal(given), DecimalType(len(str(abs(given))), 0)
