"""Strings and timestamps on Spark have the values of this process, whatever the session settings."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from lazydelta.expressions import as_predicate, bind, evaluate
from lazydelta.schema import PrimitiveType, StructField, StructType
from lazydelta.schema.types import DecimalType
from lazydelta.schema.values import parse_partition_values
from lazydelta.spark.column_functions import day_number, literal, micros, parse_string
from lazydelta.spark.row_filter import _value
from lazydelta.spark.spark_releases import collect_arrow
from tests.spark.cases import frame_of

NUMBERS = [
    "7",
    "-7",
    "+07",
    " 7 ",
    "7.0",
    "7.5",
    ".5",
    "5.",
    "1e2",
    "1E-2",
    "7d",
    "0x7",
    "",
    "-",
    "x",
]
STRINGS = {
    "byte": [*NUMBERS, "127", "128", "-129"],
    "integer": [*NUMBERS, "2147483647", "2147483648", "9" * 30, "9" * 31],
    "long": [*NUMBERS, str(2**63 - 1), str(2**63), str(-(2**63))],
    "float": [*NUMBERS, "NaN", "-nan", "inf", "-Infinity", "0.1", "1e39", "16777217", "1f"],
    "double": [*NUMBERS, "nan", "+INF", "infinity", "0.1", "1e400", "1e-400", "1d"],
    "boolean": ["true", "TRUE", " False ", "t", "1", "yes", "", "no"],
    "date": ["2026-01-31", "2026-1-1", "+12026-01-01", "-0001-12-31", "0000-01-01", "2026-02-30"],
    "timestamp": [],
    "timestamp_ntz": [],
    "decimal(5,2)": [*NUMBERS, "123.45", "123.456", "1234", "999.99", "0E-10", "1e-2", "1.10000"],
    "decimal(38,4)": [
        "9" * 34,
        "9" * 35,
        "0.00005",
        ".5",
        "5.",
        "0.500000",
        "7d",
        "123456789012345678901234567890.1234",
    ],
    "string": ["", " a ", "é"],
    "binary": ["", "é", "\U0001f600"],
}
STRINGS["date"] += [" 2026-01-01 ", "2026-01-01T00:00:00", "2026-01", "20260101", "2026-13-01", ""]
TIMES = [
    *("2026-01-31", "2026-1-1 1:02", "2026-01-01T23:59:59", "2026-03-08 02:30:00"),
    *("2026-01-01 00:00:00.1", "2026-01-01 00:00:00.123456789", "2026-01-01 00:00:00Z"),
    *("2026-01-01 00:00:00.5z", "2026-01-01 00:00:00 UTC", "2026-01-01 00:00Z"),
    *("2026-01-01T00:00:00.000-08:00", "2026-01-01T00:00:00+0530", "2026-01-01 00:00+01:00:30"),
    *("2026-11-01 01:30:00", " 2026-01-01 00:00:00 ", "2026-01-01 24:00:00", "2026-01-01 00:60:00"),
    *("+12026-01-01 00:00:00", "-0044-03-15 12:00:00", "2026-01-01 00:00:00 CET", "noon", ""),
    *("1969-12-31 23:59:59.999999", "2026-02-30 00:00:00", "2026-01-01+01:00", "12:00:00"),
]
STRINGS["timestamp"] = STRINGS["timestamp_ntz"] = TIMES


def kind_of(name):
    if not name.startswith("decimal"):
        return PrimitiveType(name)
    precision, scale = name[8:-1].split(",")
    return DecimalType(int(precision), int(scale))


def as_numbers(column, kind):
    """Times as numbers: Python's calendar ends at the year 9999."""
    if str(kind) == "date":
        return day_number(column, kind)
    return micros(column, kind) if str(kind).startswith("timestamp") else column


def arrow_numbers(values):
    if pa.types.is_date32(values.type):
        return values.view(pa.int32())
    return values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values


@pytest.fixture(params=["UTC", "America/New_York"], ids=["in-utc", "in-new-york"])
def zoned(request, spark):
    """A session with its own settings, on the shared Spark."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", request.param)
    session.conf.set("spark.sql.ansi.enabled", str(request.param == "UTC").lower())
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    return session


def test_strings_are_parsed_alike(zoned):
    """One job for all types: a column for each, as long as the longest list of strings."""
    size = max(map(len, STRINGS.values()))
    padded = {
        name: [*strings, *[None] * (size - len(strings))] for name, strings in STRINGS.items()
    }
    frame = frame_of(zoned, pa.RecordBatch.from_pydict(padded))
    columns = [
        as_numbers(parse_string(f.when(column != "", column), kind_of(name)), kind_of(name)).alias(
            name
        )
        for name, column in ((name, f.col(f"`{name}`")) for name in STRINGS)
    ]
    found = collect_arrow(frame.select("at", *columns)).sort_by("at")
    for name, strings in padded.items():
        wanted = parse_partition_values(pa.array(strings), kind_of(name), on_error="null")
        got = found.column(name).combine_chunks()
        pairs = zip(strings, map(repr, got.to_pylist()), strict=True)
        assert list(pairs) == list(
            zip(strings, map(repr, arrow_numbers(wanted).to_pylist()), strict=True)
        ), name


DAY = 86_400_000_000
INSTANTS = [0, -1, 1, 999, DAY - 1, -DAY, 1_772_937_015_123_456, 317_336_781_600_000_000, None]
INSTANTS += [
    -62_167_219_200_000_000,
    -62_167_219_200_000_001,
    -(2**62),
    2**63 - 1,
    -1_772_937_015_123_456,
]
DAYS = [0, -1, 20_520, 2_932_896, 2_932_897, -719_528, -719_529, 10_999_999, 11_000_001, None]
DAYS += [2**31 - 1, -12_000_001, 19_782, 59]
FUNCTIONS = [
    *("year({})", "month({})", "day({})", "hour({})", "cast({} as date)", "trunc({}, 'quarter')"),
    *(
        "trunc({}, 'week')",
        "trunc({}, 'month')",
        "date_trunc('year', {})",
        "date_trunc('week', {})",
    ),
    *("date_trunc('day', {})", "date_trunc('hour', {})", "date_trunc('second', {})"),
    *("date_format({}, 'yyyy-MM-dd HH:mm:ss')", "date_format({}, '''at'' HH')"),
    *("cast({} as timestamp)", "cast({} as timestamp_ntz)"),
]
TIME_SCHEMA = StructType(
    tuple(
        StructField(n, PrimitiveType(k))
        for n, k in (("t", "timestamp"), ("n", "timestamp_ntz"), ("d", "date"))
    )
)


def bound_value(expression):
    """Return a bound value, taken from an IS NULL predicate."""
    return bind(as_predicate(f"({expression}) IS NULL"), TIME_SCHEMA, ()).operand


def test_functions_of_times_are_computed_alike(zoned):
    micros_array, day_array = pa.array(INSTANTS, pa.int64()), pa.array(DAYS, pa.int32())
    rows = pa.RecordBatch.from_arrays(
        [
            micros_array.view(pa.timestamp("us", "UTC")),
            micros_array.view(pa.timestamp("us")),
            day_array.view(pa.date32()),
        ],
        names=["t", "n", "d"],
    )
    expressions = [function.format(name) for function in FUNCTIONS for name in "tnd"]
    expressions = [one for one in expressions if one not in ("hour(d)", "cast(d as date)")]
    values = [bound_value(one) for one in expressions]
    columns = [
        as_numbers(_value(value), value.type).alias(f"c{at}") for at, value in enumerate(values)
    ]
    found = collect_arrow(frame_of(zoned, rows).select("at", *columns)).sort_by("at")
    for at, (expression, value) in enumerate(zip(expressions, values, strict=True)):
        wanted = evaluate(value, lambda ref: rows.column(ref.path[0]), rows.num_rows)
        wanted = arrow_numbers(wanted)
        assert found.column(f"c{at}").to_pylist() == wanted.to_pylist(), expression


def test_constants_have_their_own_values(zoned):
    wanted = {
        "timestamp": [0, -1, 2**63 - 1, 1_772_937_015_123_456, None],
        "timestamp_ntz": [0, -1, 2**63 - 1, 1_772_937_015_123_456, None],
        "date": [0, -1, 2_932_897, 20_520, None],
        "decimal(38,4)": [Decimal("0.0001"), Decimal("-9999999999999999999999999999999999.9999")],
        "string": ["", "it's \\ \n\0", "\U0001f600"],
        "binary": [b"\0\xff", b""],
        "byte": [-128, 127],
        "float": [0.5, float("inf")],
    }
    items = [(kind_of(name), value) for name, values in wanted.items() for value in values]
    columns = [as_numbers(literal(value, kind), kind) for kind, value in items]
    (row,) = zoned.range(1).select(*[c.alias(f"c{at}") for at, c in enumerate(columns)]).collect()
    assert [bytes(v) if isinstance(v, bytearray) else v for v in row] == [v for _, v in items]


def test_a_decimal_of_38_digits_with_an_exponent_is_unknown(zoned):
    """Spark has no wider type that would show lost digits."""
    (row,) = zoned.range(1).select(parse_string(f.lit("1E+3"), DecimalType(38, 4))).collect()
    assert row[0] is None
