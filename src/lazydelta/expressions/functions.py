"""Signatures of the SQL functions: one registry for binding, evaluation and the reference page.

A function is supported if its result is Spark's for every value, or if the row fails. Timestamps
are in UTC, as with `spark.sql.session.timeZone = UTC`. `kernels` computes the functions.

In table metadata (`in_metadata`) a function is accepted only if Delta Spark accepts it in
generated columns, and if its result does not depend on the mode or time zone of a session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.expressions.coercion import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    is_float,
    is_number,
    is_string,
    type_of,
)
from lazydelta.expressions.datetime_patterns import can_format, can_parse
from lazydelta.expressions.regexes import has_group, is_regex, is_replacement, never_empty
from lazydelta.schema import ArrayType, DataType, DecimalType, MapType

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.nodes.base import Value

__all__ = [
    "ALIASES",
    "CHOICES",
    "COLLECTIONS",
    "CURRENT",
    "DATE_UNITS",
    "FUNCTIONS",
    "SPECIAL_FORMS",
    "TRIED",
    "VARIADIC",
    "Signature",
    "constant_positions",
    "implicit_type",
    "of_family",
]

DATE_UNITS = {
    "year": "year",
    "yyyy": "year",
    "yy": "year",
    "quarter": "quarter",
    "month": "month",
    "mon": "month",
    "mm": "month",
    "week": "week",
    "day": "day",
    "dd": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
"""Names of the units that timestamps can be truncated to."""

ALIASES = {
    "||": "concat",
    "cardinality": "size",
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "charindex": "locate",
    "curdate": "current_date",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "dayofmonth": "day",
    "ifnull": "coalesce",
    "lcase": "lower",
    "len": "length",
    "negative": "-",
    "now": "current_timestamp",
    "nvl": "coalesce",
    "position": "locate",
    "pow": "power",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "sha": "sha1",
    "signum": "sign",
    "substr": "substring",
    "to_date": "date",
    "to_unix_timestamp": "unix_timestamp",
    "ucase": "upper",
}
CHOICES = {"coalesce": (1, None), "greatest": (2, None), "least": (2, None), "nullif": (2, 2)}
"""Functions of values of one type, with the least and the greatest number of arguments."""
VARIADIC = {"concat": True, "concat_ws": True, "hash": True, "xxhash64": True}
"""Functions of any number of arguments, and whether they are accepted in table metadata."""
COLLECTIONS = (
    "array",
    "array_contains",
    "element_at",
    "get",
    "map",
    "named_struct",
    "struct",
    "try_element_at",
)
"""Functions that build nested values, or whose result has the type of an element."""
CURRENT = ("current_date", "current_timestamp")
"""Functions of the time of the statement."""
TRIED = {
    "try_add": "+",
    "try_divide": "/",
    "try_mod": "%",
    "try_multiply": "*",
    "try_subtract": "-",
}
"""Arithmetic that is NULL where the operator fails."""
SPECIAL_FORMS = frozenset(
    {"date", "if", "isnotnull", "isnull", "left", "mod", "nvl2", "pmod", *CURRENT}
)
"""Functions that binding rewrites."""

_DATE_ONLY_UNITS = frozenset({"year", "quarter", "month", "week"})
_MAX_POSITION = 2**31 - 1
_WANTED = {
    "string": STRING,
    "number": DOUBLE,
    "float": DOUBLE,
    "double": DOUBLE,
    "integer": INTEGER,
    "long": LONG,
    "date": DATE,
    "date or timestamp": DATE,
    "timestamp": TIMESTAMP,
    "time of day": TIMESTAMP,
    "string or binary": STRING,
}
"""The type that a value of another family is cast to, as Spark's ANSI mode does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The arguments and the result of one function."""

    takes: tuple[str, ...]
    """Type families of the arguments; `constant` ones must be literals."""
    gives: DataType | Callable[..., DataType] | None = None
    """The type of the result; None is that of the first argument, a function takes all of them."""
    allows: Callable[..., bool] = lambda *_: True
    """Whether the constants are supported."""
    general: bool = False
    """Whether arguments that are called constant may be columns after all, more slowly."""
    in_metadata: bool = True
    """Whether it is accepted in constraints and generated columns."""

    def result(self, args: tuple[Value, ...]) -> DataType:
        """Return the type of the result for bound arguments."""
        if callable(self.gives):
            return self.gives(*args)
        return type_of(args[0]) if self.gives is None else self.gives


_FAMILIES: dict[str, Callable[[DataType], bool]] = {
    "string": is_string,
    "number": is_number,
    "float": is_float,
    "integer": lambda kind: str(kind) in ("byte", "short", "integer"),
    "long": lambda kind: str(kind) in ("byte", "short", "integer", "long"),
    "date": lambda kind: str(kind) in TIMES,
    "date or timestamp": lambda kind: str(kind) in TIMES,
    "timestamp": lambda kind: str(kind) in TIMES,
    "time of day": lambda kind: str(kind) in ("timestamp", "timestamp_ntz"),
    "string or binary": lambda kind: is_string(kind) or kind == BINARY,
    "array or map": lambda kind: isinstance(kind, ArrayType | MapType),
    "double": lambda kind: kind == DOUBLE,
}


def of_family(kind: DataType, family: str) -> bool:
    """Whether a type belongs to a type family of the signatures."""
    return _FAMILIES[family](kind)


def implicit_type(kind: DataType, family: str) -> DataType | None:
    """Return the type that an argument is cast to; None leaves it as it is."""
    if family in (
        "string",
        "number",
        "float",
        "date or timestamp",
        "time of day",
        "string or binary",
    ):
        return None if of_family(kind, family) else _WANTED[family]
    return _WANTED.get(family)


def constant_positions(name: str, count: int) -> tuple[int, ...]:
    """Return which arguments of a function are constants."""
    signature = FUNCTIONS.get((name, count))
    takes = () if signature is None else signature.takes
    return tuple(index for index, family in enumerate(takes) if family.startswith("constant "))


# --- constants ------------------------------------------------------------------------------------


def _is_unit(unit: Any) -> bool:
    return isinstance(unit, str) and unit.lower() in DATE_UNITS


def _is_date_unit(unit: Any) -> bool:
    return _is_unit(unit) and DATE_UNITS[unit.lower()] in _DATE_ONLY_UNITS


def _is_position(*numbers: Any) -> bool:
    return all(n is not None and -_MAX_POSITION <= n <= _MAX_POSITION for n in numbers)


def _is_scale(scale: Any) -> bool:
    return isinstance(scale, int) and -40 <= scale <= 40


def _is_given(*constants: Any) -> bool:
    return all(constant is not None for constant in constants)


# --- types of results -----------------------------------------------------------------------------


def _rounded(number: Value, scale: Value | None = None) -> DataType:
    """Return the type of `round`: a decimal may get one more digit before the point."""
    kind = type_of(number)
    if not isinstance(kind, DecimalType):
        return kind
    whole, digits = kind.precision - kind.scale + 1, int(getattr(scale, "value", 0))
    if digits < 0:
        return DecimalType(min(max(whole, 1 - digits), 38), 0)
    kept = min(digits, kind.scale)
    return DecimalType(min(whole + kept, 38), kept)


def _whole(number: Value) -> DataType:
    """Return the type of `floor` and `ceil`."""
    kind = type_of(number)
    if not isinstance(kind, DecimalType):
        return LONG
    return kind if not kind.scale else DecimalType(min(kind.precision - kind.scale + 1, 38), 0)


_STRINGS = ArrayType(STRING)
_DATE_FIELDS = (
    "year",
    "quarter",
    "month",
    "day",
    "dayofweek",
    "weekday",
    "dayofyear",
    "weekofyear",
)


def _signature(takes: str, gives: Any = None, **options: Any) -> Signature:
    return Signature(takes=tuple(takes.split(", ")), gives=gives, **options)


_TIME_FORMAT: dict[str, Any] = {"gives": STRING, "allows": can_format}
_ZONED: dict[str, Any] = {"in_metadata": False}
_SEARCH: dict[str, Any] = {"gives": INTEGER, "allows": _is_given, "general": True}

FUNCTIONS: dict[tuple[str, int], Signature] = {
    # strings
    **{(name, 1): _signature("string", STRING)
       for name in ("upper", "lower", "trim", "btrim", "ltrim", "rtrim", "reverse")},
    ("initcap", 1): _signature("string", STRING, in_metadata=False),
    ("btrim", 2): _signature("string, constant string", STRING, allows=_is_given, general=True,
                             in_metadata=False),
    **{(name, 2): _signature("constant string, string", STRING, allows=_is_given, general=True,
                             in_metadata=False) for name in ("ltrim", "rtrim")},
    ("length", 1): _signature("string or binary", INTEGER),
    **{(name, 1): _signature("string or binary", INTEGER)
       for name in ("octet_length", "bit_length")},
    ("space", 1): _signature("integer", STRING),
    ("ascii", 1): _signature("string", INTEGER),
    ("substring", 2): _signature("string, constant integer", STRING, allows=_is_position,
                                 general=True),
    ("substring", 3): _signature("string, constant integer, constant integer", STRING,
                                 allows=_is_position, general=True),
    ("substring_index", 3): _signature("string, constant string, constant integer", STRING,
                                       allows=_is_given, general=True),
    **{(name, 2): _signature("string, constant string", BOOLEAN, allows=_is_given, general=True)
       for name in ("startswith", "endswith", "contains")},
    ("rlike", 2): _signature("string, constant string", BOOLEAN, allows=is_regex),
    ("regexp_replace", 3): _signature(
        "string, constant string, constant string", STRING,
        allows=lambda regex, new: never_empty(regex) and is_replacement(regex, new)),
    ("regexp_extract", 2): _signature("string, constant string", STRING,
                                      allows=lambda regex: has_group(regex, 1)),
    ("regexp_extract", 3): _signature("string, constant string, constant integer", STRING,
                                      allows=has_group),
    ("split", 2): _signature("string, constant string", _STRINGS, allows=never_empty),
    ("replace", 2): _signature("string, constant string", STRING, allows=_is_given, general=True),
    ("replace", 3): _signature("string, constant string, constant string", STRING,
                               allows=_is_given, general=True),
    ("translate", 3): _signature("string, constant string, constant string", STRING,
                                 allows=_is_given, general=True),
    **{(name, 2): _signature("string, constant integer", STRING, allows=_is_given, general=True)
       for name in ("lpad", "rpad", "repeat", "right")},
    **{(name, 3): _signature("string, constant integer, constant string", STRING,
                             allows=_is_given, general=True) for name in ("lpad", "rpad")},
    ("instr", 2): _signature("string, constant string", **_SEARCH),
    ("locate", 2): _signature("constant string, string", **_SEARCH),
    ("locate", 3): _signature("constant string, string, constant integer", **_SEARCH),
    # numbers
    ("abs", 1): _signature("number"),
    **{(name, 1): _signature("number", _rounded) for name in ("round", "bround")},
    **{(name, 2): _signature("number, constant integer", _rounded, allows=_is_scale)
       for name in ("round", "bround")},
    **{(name, 1): _signature("number", _whole) for name in ("floor", "ceil")},
    **{(name, 1): _signature("double", DOUBLE) for name in ("sign", "sqrt")},
    # The last bit of these may differ from Java's: too much for a generated column.
    **{(name, 1): _signature("double", DOUBLE, in_metadata=False)
       for name in ("exp", "ln", "log", "log10", "log2")},
    **{(name, 2): _signature("double, double", DOUBLE, in_metadata=False)
       for name in ("log", "power")},
    ("nanvl", 2): _signature("double, double", DOUBLE),
    ("isnan", 1): _signature("float", BOOLEAN),
    # dates and timestamps
    **{(name, 1): _signature("date or timestamp", INTEGER) for name in _DATE_FIELDS},
    **{(name, 1): _signature("time of day", INTEGER) for name in ("hour", "minute", "second")},
    ("trunc", 2): _signature("date, constant string", DATE, allows=_is_date_unit),
    ("date_trunc", 2): _signature("constant string, timestamp", TIMESTAMP, allows=_is_unit),
    ("date_format", 2): _signature("date or timestamp, constant string", **_TIME_FORMAT),
    ("last_day", 1): _signature("date", DATE),
    **{(name, 2): _signature("date, integer", DATE)
       for name in ("date_add", "date_sub", "add_months")},
    ("datediff", 2): _signature("date, date", INTEGER),
    ("date", 2): _signature("string, constant string", DATE, allows=can_parse, **_ZONED),
    ("to_timestamp", 2): _signature("string, constant string", TIMESTAMP, allows=can_parse,
                                    **_ZONED),
    ("unix_timestamp", 1): _signature("timestamp", LONG, **_ZONED),
    ("unix_timestamp", 2): _signature("string, constant string", LONG, allows=can_parse, **_ZONED),
    ("from_unixtime", 1): _signature("long", STRING, **_ZONED),
    ("from_unixtime", 2): _signature("long, constant string", **_TIME_FORMAT, **_ZONED),
    ("make_date", 3): _signature("integer, integer, integer", DATE),
    # hashes
    **{(name, 1): _signature("string or binary", STRING) for name in ("md5", "sha1")},
    ("sha2", 2): _signature("string or binary, constant integer", STRING),
    ("crc32", 1): _signature("string or binary", LONG),
    # arrays and maps
    ("size", 1): _signature("array or map", INTEGER, in_metadata=False),
}  # fmt: skip
