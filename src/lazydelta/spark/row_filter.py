"""A predicate on rows as a Spark column, for the rows of Spark's own Parquet scan.

The column has the value of `expressions.evaluate`: true, false or null. Both use three-valued
logic, NaN equal to itself and greater than all numbers, and strings in byte order. Spark functions
that depend on the session (time zone, ANSI mode) or differ in meaning are composed of functions
that do not; see `spark.column_functions`. It needs no session, so it works through Spark Connect.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import PredicateError
from lazydelta.expressions import DATE_UNITS, Predicate, as_predicate, bind
from lazydelta.expressions.nodes import (
    And,
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
    Value,
    fixed_prefix,
    split_pattern,
)
from lazydelta.schema import DecimalType, PrimitiveType
from lazydelta.spark.column_functions import (
    FIRST_SORTED,
    LAST_SORTED,
    cast_value,
    day_number,
    from_micros,
    is_string,
    literal,
    micros,
    quoted,
    value_type,
)
from lazydelta.spark.spark_releases import try_cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column as SparkColumn

    from lazydelta.scan import Where
    from lazydelta.schema import DataType
    from lazydelta.snapshot import SnapshotState

__all__ = ["row_condition", "untranslatable_reason"]

_DATE = PrimitiveType("date")
_FIRST_KNOWN, _LAST_KNOWN = -12_000_000, 11_000_000  # range of Arrow's calendar functions
_UNIT_MICROS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_FORMAT = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|'[^']+'|[^A-Za-z'])*")
_FORMAT_TOKEN = re.compile(r"yyyy|MM|dd|HH|mm|ss|'[^']*'|.", re.DOTALL)
_MAX_CHARACTERS = 2**31 - 1
_PLAIN_SCALE = 6
"""Session settings decide how decimals of a larger scale are written."""


def row_condition(snapshot: SnapshotState, where: Where) -> SparkColumn:
    """Return a condition on a DataFrame of rows with logical column names.

    It is true for the rows that a scan in one process returns.

    Args:
        snapshot: The version of the rows.
        where: A predicate, SQL string, DNF tuples or an equality map; None is true for all rows.

    Raises:
        ColumnNotFoundError: The predicate names a column that the schema does not have.
        PredicateError: The predicate does not fit the schema, or has no translation to Spark.
    """
    predicate = as_predicate(where)
    if predicate is None:
        return f.lit(True)
    return _predicate(bind(predicate, snapshot.schema, snapshot.partition_columns))


def untranslatable_reason(snapshot: SnapshotState, where: Where) -> str | None:
    """Return why a predicate has no translation to Spark; None if it has one."""
    try:
        row_condition(snapshot, where)
    except PredicateError as error:
        return error.reason
    return None


def _predicate(node: Predicate) -> SparkColumn:  # noqa: C901, PLR0911 - one per node
    match node:
        case And(arms):
            return _joined([_predicate(arm) for arm in arms], lambda a, b: a & b)
        case Or(arms):
            return _joined([_predicate(arm) for arm in arms], lambda a, b: a | b)
        case Not(inner):
            return ~_predicate(inner)
        case Compare(op, left, right):
            return _COMPARE[op](_value(left), _value(right))
        case In(value, options):
            return _value(value).isin(*(_constant(option) for option in _both_zeros(options)))
        case Like(value, pattern, escape):
            return _like(_value(value), pattern, escape)
        case IsNull(Column() as column):  # of any type, structs included
            return f.col(quoted(*column.path)).isNull()
        case IsNull(Value() as value):
            return _value(value).isNull()
        case IsTrue(inner):
            return f.coalesce(_predicate(inner), f.lit(False))
        case Constant(value):
            return f.lit(value).cast(t.BooleanType())
    raise _unsupported(node)


def _value(node: Value) -> SparkColumn:
    match node:
        case Predicate():
            return _predicate(node)
        case Literal():
            return _constant(node)
        case Column():
            _refuse_collation(node)
            return f.col(quoted(*node.path))
        case Cast(inner, kind):
            if not _is_translated(_type(inner), kind):
                raise _unsupported(node)
            return cast_value(_value(inner), _type(inner), kind)
        case Call():
            return _call(node)
    raise _unsupported(node)


def _is_translated(source: DataType, target: DataType) -> bool:
    """Whether a cast has the same result in any session: not through strings, mostly."""
    times = ("date", "timestamp", "timestamp_ntz")
    if is_string(source):
        return is_string(target) or str(target) == "binary"
    if is_string(target):
        scale = source.scale if isinstance(source, DecimalType) else 0
        return scale <= _PLAIN_SCALE and str(source) not in (
            "float",
            "double",
            "timestamp",
            "binary",
        )
    if (str(source) in times) != (str(target) in times):
        return str(source) == "timestamp" and str(target) == "long"
    exact = isinstance(source, DecimalType), isinstance(target, DecimalType)
    if "boolean" in (str(source), str(target)):
        return not any(exact) and not {"float", "double"} & {str(source), str(target)}
    return not (exact[1] and str(source) in ("float", "double"))


def _call(call: Call) -> SparkColumn:  # noqa: PLR0911 - one return per function
    kinds = [_type(arg) for arg in call.args]
    constants = [getattr(arg, "value", None) for arg in call.args]
    match call.name:
        case "+" | "-":
            return _sum(call, [_value(arg) for arg in call.args])
        case "year" | "month" | "day" | "hour":
            return _field(call.name, _value(call.args[0]), kinds[0])
        case "trunc":
            return _trunc(_value(call.args[0]), kinds[0], constants[1])
        case "date_trunc":
            return _trunc(_value(call.args[1]), kinds[1], constants[0])
        case "date_format" if _FORMAT.fullmatch(str(constants[1])):
            return _format(_value(call.args[0]), kinds[0], str(constants[1]))
        case "substring" if None not in constants[1:]:
            return _substring(_value(call.args[0]), constants[1:])
        case "length":
            return f.char_length(_value(call.args[0]))
    raise _unsupported(call)


def _unsupported(node: Value) -> PredicateError:
    name = node.name if isinstance(node, Call) else type(node).__name__
    return PredicateError(str(node), f"{name} has no translation to a Spark column")


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
    """Combine in a balanced tree: a chain of a thousand arms would be too deep."""
    while len(arms) > 1:
        pairs = [arms[start : start + 2] for start in range(0, len(arms), 2)]
        arms = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return arms[0]


def _type(value: Value) -> DataType:
    kind: DataType | None = getattr(value, "type", None)
    if kind is None:
        raise PredicateError(str(value), "it is not bound to a schema")
    return kind


def _refuse_collation(node: Column) -> None:
    if str(node.type).startswith("string collate"):
        raise PredicateError(str(node.type), "strings with a collation cannot be compared")


def _constant(node: Literal) -> SparkColumn:
    return literal(node.value, node.type)


def _both_zeros(options: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """Add the zero of the other sign: Spark compares long lists by their bits."""
    zeros = [option for option in options if isinstance(option.value, float) and not option.value]
    return (*options, *(Literal(-zero.value, zero.type) for zero in zeros))


def _like(value: SparkColumn, pattern: str, escape: str) -> SparkColumn:
    prefix, after = fixed_prefix(pattern, escape)
    if not after:
        return value == f.lit(prefix)
    if after == "%":
        return value.startswith(prefix)
    parts = split_pattern(pattern, escape)
    body = "".join(".*" if part is None else re.escape(part) if part else "." for part in parts)
    return value.rlike(rf"(?s)\A{body}\z")


# --- functions ----------------------------------------------------------------------------------


def _sum(call: Call, values: list[SparkColumn]) -> SparkColumn:
    operands = [literal(0, _type(call.args[0])), *values][-2:]
    total = (f.try_add if call.name == "+" else f.try_subtract)(*operands)
    return try_cast(total, value_type(_type(call)))


def _known_day(time: SparkColumn, kind: DataType, first: int, last: int) -> SparkColumn:
    """Return the date of a time; null outside of a range of days."""
    number = day_number(time, kind)
    inside = number.between(f.lit(first), f.lit(last))
    return f.when(inside, f.date_from_unix_date(number))


def _field(name: str, time: SparkColumn, kind: DataType) -> SparkColumn:
    day = _known_day(time, kind, _FIRST_KNOWN, _LAST_KNOWN)
    if name == "hour":
        return f.when(day.isNotNull(), _clock(time, kind, "hour", 24))
    return {"year": f.year, "month": f.month, "day": f.day}[name](day)


def _clock(time: SparkColumn, kind: DataType, unit: str, cycle: int) -> SparkColumn:
    """Return the hour, minute or second in UTC."""
    size = _UNIT_MICROS[unit]
    within = f.pmod(micros(time, kind), f.lit(size * cycle))
    return f.call_function("div", within, f.lit(size)).cast(t.IntegerType())


def _trunc(time: SparkColumn, kind: DataType, unit: Any) -> SparkColumn:
    """Truncate to a unit; units below a day do not change a date."""
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
    """Format a time; null unless the year has four digits."""
    day = _known_day(time, kind, FIRST_SORTED, LAST_SORTED)
    fields: dict[str, Callable[[], SparkColumn]] = {
        "yyyy": lambda: f.year(day),
        "MM": lambda: f.month(day),
        "dd": lambda: f.day(day),
        "HH": lambda: _clock(time, kind, "hour", 24),
        "mm": lambda: _clock(time, kind, "minute", 60),
        "ss": lambda: _clock(time, kind, "second", 60),
    }
    strings = [
        f.lpad(fields[token]().cast(t.StringType()), len(token), "0")
        if token in fields
        else f.lit(token.strip("'"))
        for token in _FORMAT_TOKEN.findall(pattern)
    ]
    return f.when(day.isNotNull(), f.concat(f.lit(""), *strings))


def _substring(value: SparkColumn, arguments: Sequence[Any]) -> SparkColumn:
    """Return a substring; positions start at 1, negative ones count from the end."""
    position, length = (_clamped(argument) for argument in (*arguments, _MAX_CHARACTERS)[:2])
    return f.substring(value, position, length)


def _clamped(position: int) -> int:
    """Return a position as a 32-bit integer, the limit of Spark's string lengths."""
    return max(-_MAX_CHARACTERS, min(position, _MAX_CHARACTERS))
