"""A predicate as a Spark column: true, false or null where `expr.evaluate` gives the same.

One translation for rows and for statistics: what a column or statistic is in a DataFrame is the
caller's business. It names no files and needs no session, so it works through Spark Connect.

Spark's own logic is SQL's, as ours is: three-valued, NaN equal to itself and above all numbers,
texts by their bytes. Where its functions depend on the session (time zone, ANSI mode) or take
another view, they are spelled in parts that do not; see `spark.values`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import InternalError, PredicateError
from lazydelta.expr import (
    DATE_UNITS,
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
    as_predicate,
    bind,
    fixed_prefix,
    split_pattern,
)
from lazydelta.schema import PrimitiveType
from lazydelta.spark.values import cast_value, day_number, from_micros, literal, micros, value_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column as SparkColumn

    from lazydelta.scan import Where
    from lazydelta.schema import DataType
    from lazydelta.snapshot import Snapshot

    Source = Callable[[Column | Stat], SparkColumn]

__all__ = ["row_condition", "to_column"]

_DATE = PrimitiveType("date")
_FIRST_SORTED, _LAST_SORTED = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31
_FIRST_KNOWN, _LAST_KNOWN = -12_000_000, 11_000_000  # what the calendar of Arrow can hold
_UNIT_MICROS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_FORMAT_TOKEN = re.compile(r"yyyy|MM|dd|HH|mm|ss|'[^']*'|.", re.DOTALL)
_MOST_CHARACTERS = 2**31 - 1
_MOST_ARMS = 32
"""More options than this are looked up in an array: a tree of them would be slow to plan."""


def to_column(predicate: Predicate, source: Source) -> SparkColumn:
    """Return a bound predicate, or one rewritten over statistics, as a boolean column.

    Args:
        predicate: Bound, or rewritten.
        source: Gives the column of a column or statistic, in the Spark type of its Delta type.
    """
    return _Translation(source).predicate(predicate)


def row_condition(snapshot: Snapshot, where: Where) -> SparkColumn:
    """Return a condition for the rows of a table, to filter a DataFrame of them with.

    It is true for the rows that the in-process reader returns. Columns go by their logical names.

    Args:
        snapshot: The version that the rows are of.
        where: A predicate, SQL text, DNF tuples or an equality map; None is true for all rows.

    Raises:
        ColumnNotFoundError: The predicate names a column that the schema does not have.
        PredicateError: The predicate does not fit the schema.
    """
    predicate = as_predicate(where)
    if predicate is None:
        return f.lit(True)
    return to_column(bind(predicate, snapshot.schema, snapshot.partition_columns), _row_column)


def _row_column(column: Column | Stat) -> SparkColumn:
    first, *rest = (part.replace("`", "``") for part in column.path)
    return f.col(".".join(f"`{part}`" for part in (first, *rest)))


class _Translation:
    """One translation of one tree."""

    def __init__(self, source: Source) -> None:
        self.source = source

    # --- predicates

    def predicate(self, node: Predicate) -> SparkColumn:  # noqa: C901, PLR0911 - one per node
        match node:
            case And(arms):
                return _joined([self.predicate(arm) for arm in arms], lambda a, b: a & b)
            case Or(arms):
                return _joined([self.predicate(arm) for arm in arms], lambda a, b: a | b)
            case Not(inner):
                return ~self.predicate(inner)
            case Compare(op, left, right):
                return _COMPARE[op](self.value(left), self.value(right))
            case In(value, options):
                return self.is_in(value, options)
            case AnyWithin(low, high, options):
                return self.any_within(low, high, options)
            case Like(value, pattern, escape):
                return _like(self.value(value), pattern, escape)
            case IsNull(operand):
                return self.is_null(operand)
            case IsTrue(inner):
                return f.coalesce(self.predicate(inner), f.lit(False))
            case Constant(value):
                return f.lit(value).cast(t.BooleanType())
        raise InternalError(f"there is no meaning for {type(node).__name__}")

    def is_null(self, operand: Value | Predicate) -> SparkColumn:
        if isinstance(operand, Predicate):
            return self.predicate(operand).isNull()
        if isinstance(operand, (Column, Stat)):  # of any type, known or not
            return self.source(operand).isNull()
        return self.value(operand).isNull()

    def is_in(self, value: Value, options: tuple[Literal, ...]) -> SparkColumn:
        return self.value(value).isin(*(_constant(option) for option in _both_zeros(options)))

    def any_within(self, low: Value, high: Value, options: tuple[Literal, ...]) -> SparkColumn:
        """Say whether an option lies between; unknown where there is no lower end."""
        start, end = self.value(low), self.value(high)
        given = [_constant(option) for option in options]
        if len(given) > _MOST_ARMS:
            found = f.exists(f.array(*given), lambda option: (start <= option) & (option <= end))
        else:
            arms = [(start <= option) & (end >= option) for option in given]
            found = _joined(arms, lambda a, b: a | b)
        return f.when(start.isNotNull(), found)

    # --- values

    def value(self, node: Value) -> SparkColumn:
        match node:
            case Literal():
                return _constant(node)
            case Column() | Stat():
                _check_order(node)
                return self.source(node)
            case Cast(inner, kind):
                return cast_value(self.value(inner), _type(inner), kind)
            case Call():
                return self.call(node)
        raise InternalError(f"there is no meaning for {type(node).__name__}")

    def call(self, call: Call) -> SparkColumn:  # noqa: PLR0911 - one return per function
        kinds = [_type(arg) for arg in call.args]
        constants = [getattr(arg, "value", None) for arg in call.args]
        match call.name:
            case "+" | "-":
                return _sum(call, [self.value(arg) for arg in call.args])
            case "year" | "month" | "day" | "hour":
                return _field(call.name, self.value(call.args[0]), kinds[0])
            case "trunc":
                return _trunc(self.value(call.args[0]), kinds[0], constants[1])
            case "date_trunc":
                return _trunc(self.value(call.args[1]), kinds[1], constants[0])
            case "date_format":
                return _format(self.value(call.args[0]), kinds[0], str(constants[1]))
            case "substring":
                return _substring(self.value(call.args[0]), constants[1:])
            case "length":
                return f.char_length(self.value(call.args[0]))
        raise InternalError(f"there is no meaning for the function {call.name}")


_COMPARE: dict[str, Callable[[SparkColumn, SparkColumn], SparkColumn]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<=>": lambda a, b: a.eqNullSafe(b),
}


def _joined(
    arms: list[SparkColumn], join: Callable[[SparkColumn, SparkColumn], SparkColumn]
) -> SparkColumn:
    """Join in pairs, and the pairs in pairs: a chain of a thousand arms would be too deep."""
    while len(arms) > 1:
        pairs = [arms[at : at + 2] for at in range(0, len(arms), 2)]
        arms = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return arms[0]


def _type(value: Value) -> DataType:
    kind: DataType | None = getattr(value, "type", None)
    if kind is None:
        raise PredicateError(str(value), "it has no type yet; bind it to a schema first")
    return kind


def _check_order(node: Column | Stat) -> None:
    if str(node.type).startswith("string collate"):
        raise PredicateError(str(node.type), "texts with a collation cannot be compared")


def _constant(node: Literal) -> SparkColumn:
    return literal(node.value, node.type)


def _both_zeros(options: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """Add the other zero: Spark looks long lists up by bits, which tell the two apart."""
    zeros = [option for option in options if isinstance(option.value, float) and not option.value]
    return (*options, *(Literal(-zero.value, zero.type) for zero in zeros))


def _like(text: SparkColumn, pattern: str, escape: str) -> SparkColumn:
    prefix, after = fixed_prefix(pattern, escape)
    if not after:
        return text == f.lit(prefix)
    if after == "%":
        return text.startswith(prefix)
    parts = split_pattern(pattern, escape)
    body = "".join(".*" if part is None else re.escape(part) if part else "." for part in parts)
    return text.rlike(rf"(?s)\A{body}\z")


# --- functions ----------------------------------------------------------------------------------


def _sum(call: Call, values: list[SparkColumn]) -> SparkColumn:
    total = -values[0] if len(values) == 1 else None
    if total is None:
        total = values[0] + values[1] if call.name == "+" else values[0] - values[1]
    return total.try_cast(value_type(_type(call)))


def _known_day(time: SparkColumn, kind: DataType, first: int, last: int) -> SparkColumn:
    """Return the day of a time as a date; null for days out of what the calendar holds."""
    number = day_number(time, kind)
    inside = number.between(f.lit(first), f.lit(last))
    return f.when(inside, f.date_from_unix_date(number))


def _field(name: str, time: SparkColumn, kind: DataType) -> SparkColumn:
    day = _known_day(time, kind, _FIRST_KNOWN, _LAST_KNOWN)
    if name == "hour":
        return f.when(day.isNotNull(), _clock(time, kind, "hour", 24))
    return {"year": f.year, "month": f.month, "day": f.day}[name](day)


def _clock(time: SparkColumn, kind: DataType, unit: str, cycle: int) -> SparkColumn:
    """Return the hour, minute or second that the clock in UTC shows."""
    size = _UNIT_MICROS[unit]
    within = f.pmod(micros(time, kind), f.lit(size * cycle))
    return f.call_function("div", within, f.lit(size)).cast(t.IntegerType())


def _trunc(time: SparkColumn, kind: DataType, unit: Any) -> SparkColumn:
    """Round down to a unit; units below a day leave a date as it is."""
    name = DATE_UNITS[str(unit).lower()]
    day = _known_day(time, kind, _FIRST_KNOWN, _LAST_KNOWN)
    if name in _UNIT_MICROS and str(kind) != "date":
        count = micros(time, kind)
        start = f.try_subtract(count, f.pmod(count, f.lit(_UNIT_MICROS[name])))
        return from_micros(f.when(day.isNotNull(), start), kind)
    if name not in _UNIT_MICROS and name != "day":
        day = f.trunc(day, name)
    return day if str(kind) == "date" else from_micros(micros(day, _DATE), kind)


def _format(time: SparkColumn, kind: DataType, pattern: str) -> SparkColumn:
    """Write a time field by field; years that do not have four digits are null."""
    day = _known_day(time, kind, _FIRST_SORTED, _LAST_SORTED)
    fields: dict[str, Callable[[], SparkColumn]] = {
        "yyyy": lambda: f.year(day),
        "MM": lambda: f.month(day),
        "dd": lambda: f.day(day),
        "HH": lambda: _clock(time, kind, "hour", 24),
        "mm": lambda: _clock(time, kind, "minute", 60),
        "ss": lambda: _clock(time, kind, "second", 60),
    }
    texts = [
        f.lpad(fields[token]().cast(t.StringType()), len(token), "0")
        if token in fields
        else f.lit(token.strip("'"))
        for token in _FORMAT_TOKEN.findall(pattern)
    ]
    return f.when(day.isNotNull(), f.concat(f.lit(""), *texts))


def _substring(text: SparkColumn, places: Sequence[Any]) -> SparkColumn:
    """Cut a text; positions count from 1, negative ones from the end."""
    position, length = (_near_zero(place) for place in (*places, _MOST_CHARACTERS)[:2])
    return f.substring(text, position, length)


def _near_zero(place: int) -> int:
    """No text is longer than 32 bits can count, so a place beyond is as good as the last."""
    return max(-_MOST_CHARACTERS, min(place, _MOST_CHARACTERS))
