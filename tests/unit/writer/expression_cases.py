"""SQL expressions over one batch of unusual rows, for the tests in process and on Spark.

`COMPUTED` are supported: for every row Spark must return the same value, or fail. `REFUSED` are
unsupported or ambiguous.
"""

# ruff: noqa: DTZ001 - a timestamp_ntz has no zone; expressions are many to a line

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import to_numpy
from lazydelta.expressions import bind_expression
from lazydelta.expressions.coercion import type_of
from lazydelta.schema import from_arrow_schema

__all__ = ["COMPUTED", "REFUSED", "ROWS", "SCHEMA", "as_strings", "computed", "golden"]

GOLDEN = Path(__file__).parent / "golden" / "expressions.json"

D = Decimal
_ROWS = [
    # b, s, i, l, f, d, m (decimal 10,2), n (decimal 20,6), t, u (another string), x, day, at, wall, y
    (1, 2, 3, 4, 1.5, 2.5, D("1.25"), D("-2.500000"), "abc", "b", True,
     date(2024, 2, 29), datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC),
     datetime(2024, 2, 29, 12), {"k": 1, "v": {"w": "in"}}),
    (-128, -32768, -(2**31), -(2**63), -0.0, -0.0, D("-99999999.99"), D("0.000001"), "", "", False,
     date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
     datetime(1, 1, 1), {"k": None, "v": None}),
    (127, 32767, 2**31 - 1, 2**63 - 1, float("nan"), float("nan"), D("99999999.99"),
     D("99999999999999.999999"), "Straße ÄÖ", "ß", None, date(1, 1, 1),
     datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999), None),
    (0, 0, 0, 0, 0.0, 0.0, D("0.00"), D("0.000000"), "  7 ", "7", True, date(9999, 12, 31),
     datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 100000),
     {"k": 0, "v": {"w": None}}),
    (None,) * 15,
    (7, -7, 12, -12, float("inf"), float("-inf"), D("0.50"), D("-0.500000"), "7.5", "x", False,
     date(2023, 1, 1), datetime(2023, 1, 1, 10, 5, 6, 700000, tzinfo=UTC),
     datetime(2000, 2, 29, 1, 2, 3, 40), {"k": -5, "v": {"w": "a_b%"}}),
    (-1, -1, -1, -1, 1e30, 1e300, D("-1.25"), D("2.345678"), "TRUE", "TR", True,
     date(2020, 12, 31), datetime(2020, 12, 31, tzinfo=UTC), datetime(2020, 12, 27, 5),
     {"k": 2**31 - 1, "v": {"w": "日本"}}),
    (3, 100, 100, 10**10, 2.5, -7.9, D("7.05"), D("-7.900000"), "2024-02-29", "-", None,
     date(2016, 1, 3), datetime(2016, 1, 3, 0, 0, 1, tzinfo=UTC), datetime(2016, 1, 3), None),
]  # fmt: skip
ROWS = pa.schema(
    [
        ("b", pa.int8()),
        ("s", pa.int16()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("n", pa.decimal128(20, 6)),
        ("t", pa.string()),
        ("u", pa.string()),
        ("x", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("y", pa.struct([("k", pa.int32()), ("v", pa.struct([("w", pa.string())]))])),
    ]
)
SCHEMA = from_arrow_schema(ROWS)
ROWS = pa.RecordBatch.from_pylist(
    [dict(zip(ROWS.names, row, strict=True)) for row in _ROWS], schema=ROWS
)

COMPUTED = [
    *("b + b", "b + s", "i + l", "i + 1", "l - 1", "l + 1L", "b * 2Y", "i * i", "l * 2", "-b", "-l"),
    *("-i", "abs(b)", "abs(l)", "abs(d)", "abs(m)", "i / 2", "i / l", "i / 0", "l div 3", "i div i"),
    *("l div -1", "i % 5", "l % i", "b % b", "d % 2.5D", "f % f", "d + 1D", "d * d", "d / d", "f + f"),
    *("f * f", "f / f", "i + d", "d - i", "m + 1", "m + m", "m * m", "m - n", "m * 3", "n + i", "-m"),
    *("m + d", "negative(s)", "1 + 2 * 3 - 4", "(1 + 2) * 3", "7 div 2", "-7 % 3", "2147483647L + 1"),
    *("i = 3", "i > l", "b < s", "i <=> null", "i != 0", "f = f", "d > 0", "d >= d", "f > 0.5", "f = 1"),
    *("m = 1.25", "m > n", "m < 7", "m = d", "n >= i", "d = 2.5", "t = 'abc'", "t < u", "t >= ''"),
    *("x", "not x", "x = true", "x = (i > 0)", "x and i > 0", "x or i > 0", "x is null", "x is not true"),
    *("x <=> (i > 0)", "(i > 0) is null", "day = '2024-02-29'", "day < date'2020-01-01'", "day <= at"),
    *("at > '2020-01-01 00:00:00'", "at = timestamp'2020-12-31 00:00:00Z'", "wall > day"),
    *("wall < timestamp_ntz'2016-01-03 00:00:01'", "i between 1 and 50", "i not between 1 and 50"),
    *("i in (3, 12, null)", "i not in (3, 12)", "t in ('abc', u)", "m in (1.25, 0.5)", "i in (l, 3)"),
    *("t like 'a%'", "t like '%7%'", "t not like '_b_'", "y.v.w like 'a\\\\_b\\\\%'", "t rlike '^[a-z]+$'"),
    *("t rlike '[0-9]'", "t regexp '^\\\\d{4}-\\\\d{2}'", "t not rlike 'b|c'", "regexp_like(t, '^ +')"),
    *("y.k", "y.k + 1", "y.v.w || t", "y.k > 0", "y is null", "y.v is null", "isnull(y.v.w)"),
    *("isnotnull(y)", "upper(t)", "lower(t)", "ucase(u)", "length(t)", "char_length(y.v.w)", "trim(t)"),
    *("ltrim(t)", "rtrim(t)", "t || u", "t || '-' || u", "concat(t, u, 'z')", "concat(t)", "substring(t, 2)"),
    *("substring(t, 1, 2)", "substr(t, -2)", "substring(t, -2, 1)", "substring(t, 0, 2)", "substring(t, 3, 0)"),
    *("startswith(t, 'a')", "endswith(t, 'c')", "contains(t, 'b')", "coalesce(i, 1)", "coalesce(i, l, 0)"),
    *("coalesce(t, u, 'none')", "nvl(d, 0D)", "ifnull(x, false)", "nullif(i, 0)", "nullif(t, '')"),
    *("greatest(i, l)", "least(b, s, i)", "greatest(d, 0D)", "least(d, 0D)", "greatest(t, u)", "least(day, day)"),
    *("if(i > 0, i, l)", "case when i > 0 then 'p' when i = 0 then 'z' else 'n' end", "case when x then 1 end"),
    *("case i when 3 then 'three' when 12 then 'dozen' end", "case when i <> 0 then 10 / i else 0D end"),
    *("i <> 0 and 10 / i > 1", "i = 0 or 10 / i > 1", "coalesce(i, 1 div 0)", "if(i = 0, 0, 100 div i)"),
    *("isnan(d)", "isnan(f)", "cast(i as string)", "cast(x as string)", "cast(x as int)", "cast(i as boolean)"),
    *("cast(l as int)", "cast(i as tinyint)", "cast(i as bigint)", "cast(i as double)", "cast(l as float)"),
    *("cast(l as double)", "cast(d as int)", "cast(d as bigint)", "cast(f as double)", "cast(d as float)"),
    *("cast(f as smallint)", "cast(m as int)", "cast(n as bigint)", "cast(n as decimal(10,2))", "cast(m as decimal(4,1))"),
    *("cast(m as decimal(38,10))", "cast(i as decimal(5,1))", "cast(l as decimal(19,0))", "cast(m as double)"),
    *("cast(n as double)", "cast(n as float)", "cast(m as string)", "cast(n as string)", "cast(day as string)", "cast(day as timestamp)"),
    *("cast(day as timestamp_ntz)", "cast(at as date)", "cast(wall as date)", "cast(at as string)"),
    *("cast(wall as string)", "cast(at as bigint)", "cast('7' as int)", "cast('2024-02-29' as date)"),
    *("cast(t as int)", "cast(t as double)", "cast(t as date)", "cast(t as boolean)", "cast(t as decimal(10,2))"),
    *("cast(t as timestamp)", "cast(u as bigint)", "cast(u as float)", "day = cast(t as date)", "f % 0F"),
    *("cast(t as binary) = cast('abc' as binary)", "date(at)", "to_date(wall)", "year(day)", "year(at)", "month(wall)"),
    *("day(day)", "dayofmonth(at)", "quarter(day)", "dayofweek(day)", "weekday(day)", "dayofyear(at)"),
    *("weekofyear(day)", "weekofyear(wall)", "hour(at)", "hour(wall)", "minute(at)", "second(wall)", "second(at)"),
    *("trunc(day, 'year')", "trunc(day, 'MM')", "trunc(at, 'week')", "trunc(day, 'quarter')"),
    *("date_trunc('hour', at)", "date_trunc('DAY', at)", "date_trunc('week', day)", "date_trunc('month', wall)"),
    *("date_format(day, 'yyyy-MM')", "date_format(at, 'yyyy-MM-dd-HH')", "last_day(day)", "date_add(day, 1)"),
    *("date_sub(day, i)", "date_add(day, b)", "day + 1", "day - 7", "datediff(day, date'2020-01-01')"),
    *("round(d)", "round(d, 1)", "round(m, 1)", "round(i, -1)", "round(b, -1)", "bround(d)", "bround(n, 2)", "floor(d)"),
    *("floor(m)", "ceil(f)", "ceil(n)", "ceil(i)", "sign(d)", "sqrt(d)"),
    *("pmod(i, 5)", "pmod(l, i)", "mod(i, 5)", "nanvl(d, 1D)", "nvl2(t, i, l)", "coalesce(m, 1)"),
    *("concat_ws('-', t, u)", "left(t, 2)", "right(t, 2)", "replace(t, 'b', 'x')", "replace(t, 'b')", "translate(t, 'ab', 'x')"),
    *("regexp_replace(t, '[a-c]', '<$0>')", "regexp_extract(t, '([a-z])b', 1)", "split(t, 'b')", "lpad(t, 5, 'xy')"),
    *("rpad(t, 2)", "instr(t, 'b')", "locate('b', t)", "locate('b', t, 2)", "reverse(t)", "repeat(t, 2)", "space(b)"),
    *("substring_index(t, '-', 1)", "ascii(t)", "octet_length(t)", "bit_length(u)", "length(cast(t as binary))"),
    *("add_months(day, 1)", "add_months(at, b)", "make_date(s, b, 3)", "date_format(at, 'EEE d MMM yyyy h:mm a')"),
    *("md5(t)", "sha1(t)", "sha2(t, 256)", "crc32(t)", "hash(t, i, d, day)", "xxhash64(t, l, f, m, at)"),
    *("datediff(at, day)", "null", "true", "not false", "`i` + 1", "-- why\n i /* so */ + 1"),
]  # fmt: skip
"""Understood."""

REFUSED = [
    ("i + ", "expected a column"),
    ("nothing + 1", "no column 'nothing'"),
    ("y + 1", "struct"),
    ("y = y", "struct"),
    ("t + 1", "takes numbers"),
    ("i + null", "need an explicit CAST"),
    ("i = x", "without an explicit CAST"),
    ("i = t", "without an explicit CAST"),
    ("i = 'seven'", "column i has type integer, and 'seven' cannot be converted"),
    ("f + i", "need an explicit CAST"),
    ("f > i", "without an explicit CAST"),
    ("m / m", "need an explicit CAST"),
    ("m % 2", "need an explicit CAST"),
    ("cast(l as decimal(38,0)) * l", "need an explicit CAST"),
    ("cast(d as string)", "cannot be cast"),
    ("cast(d as decimal(10,2))", "cannot be cast"),
    ("cast(i as date)", "cannot be cast"),
    ("at = wall", "without an explicit CAST"),
    ("coalesce(day, '2020-01-01')", "without an explicit CAST"),
    ("if(i, 1, 2)", "condition"),
    ("exp(d) > 1", "in table metadata"),
    ("power(d, 2D) > 1", "in table metadata"),
    ("initcap(t)", "no function 'initcap' of 1 arguments in table metadata"),
    ("day < current_date()", "changes with time"),
    ("at < current_timestamp", "changes with time"),
    ("from_unixtime(l) = t", "in table metadata"),
    ("to_date(t, 'yyyy') = day", "in table metadata"),
    ("try_cast(t as int) > 1", "cannot be cast"),
    ("upper(i) = t", "cast it"),
    ("i + t > 0", "need an explicit CAST"),
    ("size(split(t, ',')) > 1", "in table metadata"),
    ("array(i)[0] > 1", "in table metadata"),
    ("rand() > 0.5", "no function 'rand'"),
    ("my_udf(i)", "no function 'my_udf'"),
    ("trunc(day, 'hour')", "constant"),
    ("date_format(at, 'G')", "constant"),
    ("t rlike u", "constant"),
    ("t rlike '(?i)a'", "constant"),
    ("t rlike '(a'", "constant"),
    ("t rlike '[a&&b]'", "constant"),
    ("substring(t, i)", "constant"),
    ("at + interval 1 day", "table metadata"),
    ("y['k']", "struct"),
    ("i > (select 1)", "expected"),
    ("i & 1", "cannot read"),
    ("9" * 39, "out of range"),
    ("count(i)", "no function 'count'"),
    ("(" * 70 + "i" + ")" * 70, "deep"),
]
"""Unsupported or ambiguous expressions, with a part of the error message."""


def computed(sql: str) -> dict:
    """Return the type, the values as strings, and the failed rows of an expression."""
    expression = bind_expression(sql, SCHEMA)
    result = expression(ROWS)
    result.values.validate(full=True)
    failed = [] if result.failed is None else to_numpy(pc.indices_nonzero(result.failed)).tolist()
    return {
        "type": str(type_of(expression.node)),
        "values": as_strings(result.values),
        "failed": failed,
    }


def as_strings(values: pa.Array) -> list[str]:
    """Return values as comparable strings: timestamps as integers, floats with all digits."""
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    return [repr(value) for value in values.to_pylist()]


def golden() -> dict[str, dict]:
    """Return the results of Spark, which `tests/spark/test_sql_expressions.py` verifies."""
    return json.loads(GOLDEN.read_text())


if __name__ == "__main__":  # after adding a case; the Spark test verifies it
    found = {sql: computed(sql) for sql in COMPUTED}
    lines = (f"{json.dumps(sql)}: {json.dumps(one)}" for sql, one in found.items())
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
