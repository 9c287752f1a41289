"""Spark columns: names, and for Delta values literals, string parsing, casts, time arithmetic.

The results do not depend on the session's time zone, ANSI mode or default timestamp type, and equal
those of `expressions` on Arrow: times are in UTC, and a value that cannot be parsed or represented
is null instead of an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.schema import DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.values import format_timestamp
from lazydelta.spark.arrow_conversion import spark_type
from lazydelta.spark.spark_releases import try_cast

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lazydelta.schema import DataType

__all__ = [
    "FIRST_SORTED",
    "LAST_SORTED",
    "cast_value",
    "day_number",
    "from_micros",
    "is_string",
    "literal",
    "micros",
    "parse_string",
    "quoted",
    "value_type",
]

_DAY_MICROS = 86_400_000_000
_MAX_DIGITS = 38
_HOUR_MICROS, _MINUTE_MICROS, _SECOND_MICROS = 3_600_000_000, 60_000_000, 1_000_000
FIRST_SORTED, LAST_SORTED = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31

_LONG, _INT, _STRING, _NTZ = t.LongType(), t.IntegerType(), t.StringType(), t.TimestampNTZType()
_TIMES = ("timestamp", "timestamp_ntz")

# The strings that `schema.parse_value` accepts; Spark's casts accept more.
_DATE = r"[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"[ T][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
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


def quoted(*path: str) -> str:
    """Return a column or table as Spark parses it, with any characters in its names.

    >>> quoted("lake", "my trips")
    '`lake`.`my trips`'
    """
    return ".".join(f"`{part.replace('`', '``')}`" for part in path)


def value_type(kind: DataType) -> t.DataType:
    """Return the Spark type that holds values of a Delta type.

    Raises:
        SchemaError: An unsupported type.
    """
    return spark_type(to_arrow_type(kind))


def is_string(kind: DataType) -> bool:
    """Whether values are strings without a collation."""
    return isinstance(kind, PrimitiveType) and kind.name.partition("(")[0] in (
        "string",
        "char",
        "varchar",
    )


# --- literals -----------------------------------------------------------------------------------


def literal(value: Any, kind: DataType) -> Column:  # noqa: PLR0911 - one return per type
    """Return a literal of a Delta type; dates are days and times microseconds since the epoch.

    Spark folds it into a constant, so filters with it are pushed down.
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


# --- strings ------------------------------------------------------------------------------------


def parse_string(string: Column, kind: DataType) -> Column:  # noqa: PLR0911 - one return per type
    """Return strings parsed as `schema.parse_value` does; null if invalid."""
    target = value_type(kind)
    if isinstance(kind, DecimalType):
        wide = try_cast(string, _widest_decimal(kind))
        return f.when(string.rlike(_decimal_pattern(kind)), _exact_decimal(wide, kind))
    match str(kind):
        case "byte" | "short" | "integer" | "long":
            return f.when(string.rlike(_IS_INTEGER), try_cast(string, target))
        case "float" | "double":
            return f.when(string.rlike(_IS_FLOAT), try_cast(string, t.DoubleType()).cast(target))
        case "boolean":
            false = f.when(string.rlike(r"^\s*(?i:false)\s*$"), f.lit(False))
            return f.when(string.rlike(r"^\s*(?i:true)\s*$"), f.lit(True)).otherwise(false)
        case "date":
            return f.when(string.rlike(_IS_DATE), try_cast(string, target))
        case "timestamp":
            return _zoned_time(string)
        case "timestamp_ntz":
            return f.when(string.rlike(_IS_TIME), _local_time(string))
        case "binary":
            return f.encode(string, "UTF-8")
    return string if is_string(kind) else f.lit(None).cast(target)


def _decimal_pattern(kind: DecimalType) -> str:
    """Return the pattern of a decimal: no exponent if no wider type can detect lost digits."""
    if kind.precision < _MAX_DIGITS:
        return _IS_FLOAT
    return rf"^\s*[+-]?(?:[0-9]+\.?|[0-9]*\.[0-9]{{1,{max(kind.scale, 1)}}}0*)\s*$"


def _exact_decimal(wide: Column, kind: DecimalType) -> Column:
    """Return decimals of the type `_widest_decimal(kind)` as `kind`; null if digits are lost."""
    fitted = try_cast(wide, value_type(kind))
    return f.when(fitted == wide, fitted)


def _widest_decimal(kind: DecimalType) -> t.DecimalType:
    """Return the type with as many integer digits and the largest scale."""
    return t.DecimalType(_MAX_DIGITS, _MAX_DIGITS - (kind.precision - kind.scale))


def _local_time(string: Column) -> Column:
    """Parse a time without time zone; a zone in the string is dropped, not applied."""
    return try_cast(f.regexp_replace(string, _ZONE_AT_END, ""), _NTZ)


def _zoned_time(string: Column) -> Column:
    """Parse a time; one without a zone is in UTC, whatever the session's time zone."""
    offset = f.regexp_extract(string, rf"({_OFFSET})\s*$", 1)
    zone = f.when(offset == "", "Z").otherwise(offset)
    whole = try_cast(f.concat(_local_time(string).cast(_STRING), zone), t.TimestampType())
    return f.when(string.rlike(_IS_FULL_TIME), try_cast(string, t.TimestampType())).when(
        string.rlike(_IS_TIME), whole
    )


# --- time arithmetic ----------------------------------------------------------------------------


def micros(time: Column, kind: DataType) -> Column:
    """Return the microseconds since the epoch of dates or times; null on overflow."""
    match str(kind):
        case "timestamp":
            return f.unix_micros(time)
        case "date":
            return f.try_multiply(f.unix_date(time).cast(_LONG), f.lit(_DAY_MICROS))
    seconds = f.date_part(f.lit("SECOND"), time) * f.lit(_SECOND_MICROS)
    clock = (
        f.hour(time).cast(_LONG) * f.lit(_HOUR_MICROS)
        + f.minute(time).cast(_LONG) * f.lit(_MINUTE_MICROS)
        + seconds.cast(_LONG)
    )
    return f.try_add(micros(time.cast(t.DateType()), PrimitiveType("date")), clock)


def from_micros(count: Column, kind: DataType) -> Column:
    """Return microseconds since the epoch as timestamps with or without time zone."""
    if str(kind) == "timestamp":
        return f.timestamp_micros(count)
    rest = f.pmod(count, f.lit(_DAY_MICROS)).cast(t.DecimalType(11, 0)) / f.lit(_SECOND_MICROS)
    zero = f.lit(0)
    since = f.make_dt_interval(_days(count), zero, zero, rest.cast(t.DecimalType(18, 6)))
    return literal(0, PrimitiveType("timestamp_ntz")) + since


def day_number(time: Column, kind: DataType) -> Column:
    """Return the days since the epoch of dates or times, rounded down."""
    match str(kind):
        case "date":
            return f.unix_date(time)
        case "timestamp_ntz":
            return f.unix_date(time.cast(t.DateType()))
    return _days(micros(time, kind))


def _days(count: Column) -> Column:
    whole = f.try_subtract(count, f.pmod(count, f.lit(_DAY_MICROS)))
    return f.call_function("div", whole, f.lit(_DAY_MICROS)).cast(_INT)


# --- casts --------------------------------------------------------------------------------------


def cast_value(  # noqa: PLR0911 - one return per kind of cast
    value: Column, source: DataType, target: DataType
) -> Column:
    """Return values cast as `expressions` does; null if a value cannot be represented."""
    target_type = value_type(target)
    if value_type(source) == target_type:
        return value
    if is_string(source):
        return parse_string(f.when(value != "", value), target)
    if str(target) == "date":
        return f.date_from_unix_date(day_number(value, source))
    if str(target) in _TIMES:
        return from_micros(micros(value, source), target)
    if is_string(target) and str(source) == "date":
        sorts = f.unix_date(value).between(f.lit(FIRST_SORTED), f.lit(LAST_SORTED))
        return f.when(sorts, value.cast(_STRING))
    if is_string(target):
        return value.cast(_STRING)
    return try_cast(value, target_type)
