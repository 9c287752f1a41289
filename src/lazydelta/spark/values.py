"""Delta values as Spark columns: constants, texts read as values, casts, and times as numbers.

Whatever the session says about time zones, ANSI mode or the type of timestamps, the result is the
same, and it is what `expr` computes on Arrow: times are in UTC, and what cannot be given (a text
that is no date, a number that does not fit) is null, never an error. Nothing here knows
predicates, files or the log.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.schema import DecimalType, PrimitiveType, format_timestamp, to_arrow_type
from lazydelta.spark.log_schema import spark_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from lazydelta.schema import DataType

__all__ = [
    "DAY_MICROS",
    "cast_value",
    "day_number",
    "exact_decimal",
    "from_micros",
    "is_text",
    "literal",
    "micros",
    "parse_text",
    "typed_field",
    "value_type",
    "widest_decimal",
]

DAY_MICROS = 86_400_000_000
_MOST_DIGITS = 38
_HOUR_MICROS, _MINUTE_MICROS, _SECOND_MICROS = 3_600_000_000, 60_000_000, 1_000_000
_FIRST_SORTED, _LAST_SORTED = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31

_LONG, _INT, _TEXT, _WALL = t.LongType(), t.IntegerType(), t.StringType(), t.TimestampNTZType()
_TIMES = ("timestamp", "timestamp_ntz")

# The texts that `schema.parse_value` reads; Spark's own casts take more, and some of it otherwise.
_DATE = r"[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"[ T][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_FULL_CLOCK = r"[ T][0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
_OFFSET = r"[+-][0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?"
_ZONE = rf"(?:Z|z|UTC|{_OFFSET})"
_IS_INTEGER = r"^\s*[+-]?[0-9]{1,30}\s*$"
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_IS_FLOAT = rf"^\s*(?:[+-]?{_DIGITS}|(?i:nan|[+-]?inf|[+-]?infinity))\s*$"
_IS_DATE = rf"^\s*{_DATE}\s*$"
_IS_TIME = rf"^\s*{_DATE}(?:{_CLOCK})?\s*{_ZONE}?\s*$"
_IS_FULL_TIME = (
    rf"^{_DATE}[ T][0-9]{{1,2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,9}})?(?:Z|{_OFFSET})$"
)
_ZONE_AT_END = rf"\s*{_ZONE}\s*$"


def value_type(kind: DataType) -> t.DataType:
    """Return the Spark type that holds values of a Delta type.

    Raises:
        SchemaError: A type that this engine does not know.
    """
    return spark_type(to_arrow_type(kind))


def is_text(kind: DataType) -> bool:
    """Whether values are texts that compare by code point (not by a collation)."""
    return isinstance(kind, PrimitiveType) and kind.name.partition("(")[0] in (
        "string",
        "char",
        "varchar",
    )


def typed_field(schema: t.StructType, path: Sequence[str], kind: DataType) -> Column | None:
    """Return a nested column by its path of names; None if it is not there or of another type."""
    found: t.DataType = schema
    for name in path:
        if not isinstance(found, t.StructType) or name not in found.names:
            return None
        found = found[name].dataType
    if found != value_type(kind):
        return None
    first, *rest = path
    return reduce(lambda outer, name: outer.getField(name), rest, f.col(f"`{first}`"))


# --- constants ----------------------------------------------------------------------------------


def literal(value: Any, kind: DataType) -> Column:  # noqa: PLR0911 - one return per type
    """Return a constant of a Delta type; dates are days and times microseconds since 1970.

    Spark folds it before it plans, so it can be pushed down like any other constant.
    """
    if value is None:
        return f.lit(None).cast(value_type(kind))
    if isinstance(kind, DecimalType):
        return f.lit(format(value, "f")).cast(value_type(kind))
    match str(kind):
        case "date":
            return f.date_from_unix_date(f.lit(value).cast(_INT))
        case "timestamp":
            return f.timestamp_micros(f.lit(value).cast(_LONG))
        case "timestamp_ntz":
            return f.expr(f"TIMESTAMP_NTZ '{format_timestamp(value, separator=' ')}'")
        case "boolean" | "string" | "binary":
            return f.lit(value)
    return f.lit(value).cast(value_type(kind))


# --- texts --------------------------------------------------------------------------------------


def parse_text(text: Column, kind: DataType) -> Column:  # noqa: PLR0911 - one return per type
    """Return the values that texts spell, as `schema.parse_value` reads them; null if none."""
    target = value_type(kind)
    if isinstance(kind, DecimalType):
        wide = text.try_cast(widest_decimal(kind))
        return f.when(text.rlike(_decimal_pattern(kind)), exact_decimal(wide, kind))
    match str(kind):
        case "byte" | "short" | "integer" | "long":
            return f.when(text.rlike(_IS_INTEGER), text.try_cast(target))
        case "float" | "double":
            return f.when(text.rlike(_IS_FLOAT), text.try_cast(t.DoubleType()).cast(target))
        case "boolean":
            false = f.when(text.rlike(r"^\s*(?i:false)\s*$"), f.lit(False))
            return f.when(text.rlike(r"^\s*(?i:true)\s*$"), f.lit(True)).otherwise(false)
        case "date":
            return f.when(text.rlike(_IS_DATE), text.try_cast(target))
        case "timestamp":
            return _zoned_time(text)
        case "timestamp_ntz":
            return f.when(text.rlike(_IS_TIME), _wall_time(text))
        case "binary":
            return f.encode(text, "UTF-8")
    return text if is_text(kind) else f.lit(None).cast(target)


def _decimal_pattern(kind: DecimalType) -> str:
    """Return what a decimal looks like; where no wider type can show lost digits, no exponent."""
    if kind.precision < _MOST_DIGITS:
        return _IS_FLOAT
    return rf"^\s*[+-]?(?:[0-9]+\.?|[0-9]*\.[0-9]{{1,{max(kind.scale, 1)}}}0*)\s*$"


def exact_decimal(wide: Column, kind: DecimalType) -> Column:
    """Return decimals of the type `widest_decimal(kind)` as `kind`; null if digits were lost."""
    fitted = wide.try_cast(value_type(kind))
    return f.when(fitted == wide, fitted)


def widest_decimal(kind: DecimalType) -> t.DecimalType:
    """Return the type with as many whole digits, and the most digits behind the point."""
    return t.DecimalType(_MOST_DIGITS, _MOST_DIGITS - (kind.precision - kind.scale))


def _wall_time(text: Column) -> Column:
    """Read a time as the clock showed it: a zone that is there is dropped, never applied."""
    return f.regexp_replace(text, _ZONE_AT_END, "").try_cast(_WALL)


def _zoned_time(text: Column) -> Column:
    """Read a time; one without a zone is in UTC, whatever the session's zone is."""
    offset = f.regexp_extract(text, rf"({_OFFSET})\s*$", 1)
    zone = f.when(offset == "", "Z").otherwise(offset)
    whole = f.concat(_wall_time(text).cast(_TEXT), zone).try_cast(t.TimestampType())
    return f.when(text.rlike(_IS_FULL_TIME), text.try_cast(t.TimestampType())).when(
        text.rlike(_IS_TIME), whole
    )


# --- times as numbers ---------------------------------------------------------------------------


def micros(time: Column, kind: DataType) -> Column:
    """Return the microseconds since 1970 of dates or times; null beyond 64 bits."""
    match str(kind):
        case "timestamp":
            return f.unix_micros(time)
        case "date":
            return f.try_multiply(f.unix_date(time).cast(_LONG), f.lit(DAY_MICROS))
    seconds = f.date_part(f.lit("SECOND"), time) * f.lit(_SECOND_MICROS)
    clock = (
        f.hour(time).cast(_LONG) * f.lit(_HOUR_MICROS)
        + f.minute(time).cast(_LONG) * f.lit(_MINUTE_MICROS)
        + seconds.cast(_LONG)
    )
    return f.try_add(micros(time.cast(t.DateType()), PrimitiveType("date")), clock)


def from_micros(count: Column, kind: DataType) -> Column:
    """Return microseconds since 1970 as times of a kind, zoned or not."""
    if str(kind) == "timestamp":
        return f.timestamp_micros(count)
    rest = f.pmod(count, f.lit(DAY_MICROS)).cast(t.DecimalType(11, 0)) / f.lit(_SECOND_MICROS)
    zero = f.lit(0)
    since = f.make_dt_interval(_days(count), zero, zero, rest.cast(t.DecimalType(18, 6)))
    return literal(0, PrimitiveType("timestamp_ntz")) + since


def day_number(time: Column, kind: DataType) -> Column:
    """Return the days since 1970 of dates or times, rounded down."""
    match str(kind):
        case "date":
            return f.unix_date(time)
        case "timestamp_ntz":
            return f.unix_date(time.cast(t.DateType()))
    return _days(micros(time, kind))


def _days(count: Column) -> Column:
    whole = f.try_subtract(count, f.pmod(count, f.lit(DAY_MICROS)))
    return f.call_function("div", whole, f.lit(DAY_MICROS)).cast(_INT)


# --- casts --------------------------------------------------------------------------------------


def cast_value(  # noqa: PLR0911 - one return per kind of cast
    value: Column, source: DataType, target: DataType
) -> Column:
    """Return values as another type, as `expr` casts them; null where one does not fit."""
    wanted = value_type(target)
    if value_type(source) == wanted:
        return value
    if is_text(source):
        return parse_text(f.when(value != "", value), target)
    if str(target) == "date":
        return f.date_from_unix_date(day_number(value, source))
    if str(target) in _TIMES:
        return from_micros(micros(value, source), target)
    if is_text(target) and str(source) == "date":
        sorts = f.unix_date(value).between(f.lit(_FIRST_SORTED), f.lit(_LAST_SORTED))
        return f.when(sorts, value.cast(_TEXT))
    if is_text(target):
        return value.cast(_TEXT)
    return value.try_cast(wanted)
