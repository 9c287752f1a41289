"""Rows of unusual and of random values, and expressions over them, for the tests against Spark."""

# ruff: noqa: DTZ001 - a timestamp_ntz has no zone; expressions are many to a line

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import to_numpy
from lazydelta.expressions.binding import bind_value
from lazydelta.expressions.coercion import type_of
from lazydelta.expressions.evaluation import evaluate_checked
from lazydelta.expressions.parser import parse_expression
from lazydelta.schema import StructType, from_arrow_schema

__all__ = [
    "EXPRESSIONS",
    "INEXACT",
    "STRICTER",
    "as_strings",
    "awkward_rows",
    "evaluated",
    "random_rows",
    "rounded",
]

_D = Decimal
_NAN, _INF = float("nan"), float("inf")
_SCHEMA = pa.schema(
    [
        ("b", pa.int8()),
        ("s", pa.int16()),
        ("i", pa.int32()),
        ("p", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("n", pa.decimal128(38, 10)),
        ("w", pa.decimal128(38, 0)),
        ("z", pa.decimal128(9, 9)),
        ("t", pa.string()),
        ("u", pa.string()),
        ("num", pa.string()),
        ("tim", pa.string()),
        ("x", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("y", pa.struct([("k", pa.int32()), ("v", pa.string())])),
        ("a", pa.list_(pa.int32())),
        ("g", pa.list_(pa.string())),
        ("h", pa.map_(pa.string(), pa.int32())),
        ("raw", pa.binary()),
    ]
)
_VALUES = {
    "b": [0, 1, -1, 7, 127, -128],
    "s": [0, 1, -7, 100, 32767, -32768],
    "i": [0, 1, -1, 3, 12, 125, 2**31 - 1, -(2**31)],
    "p": [0, 1, 2, 3, -1, -2, 5, -7],
    "l": [0, 1, -1, 10**10, 2**53 + 1, 2**63 - 1, -(2**63), 1_700_000_000],
    "f": [0.0, -0.0, 1.5, 2.5, -2.5, 0.1, 1e30, 3.4e38, 1.4e-45, _INF, -_INF, _NAN],
    "d": [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 2.675, 1e-310, 1e300, -7.9, 1e22, _INF, -_INF, _NAN],
    "e": [0.0, 2.0, -1.0, 0.5, 3.0, -2.5, 1e10, _NAN],
    "m": [_D("0.00"), _D("1.25"), _D("-2.55"), _D("7.05"), _D("99999999.99"), _D("-99999999.99")],
    "n": [_D("0"), _D("0.0000000001"), _D("-2.5"), _D("9" * 28 + "." + "9" * 10), _D("3"), _D("0.5")],
    "w": [_D(0), _D(1), _D(-7), _D("9" * 38), _D("-" + "9" * 38), _D(10**20 + 1)],
    "z": [_D("0"), _D("0.000000001"), _D("-0.999999999"), _D("0.5")],
    "t": ["", "a", "abc", "  x ", "Straße ÄÖ", "e\u0301a", "😀x😀", "a,b,,c", "A-b_C d", "x1y22", "日本語",
          "a.b.c", "hello wORLD", "ΑΣ ΣΑΣ", "\tq\u00a0r", "%_\\"],
    "u": ["", "a", "b", ",", "ß", "😀", "ab", " "],
    "num": ["0", "1", "-12", "  7 ", "3.14", "1e3", "abc", "", "yes", "TRUE", "f", "0x1", "NaN", "99999999999",
            "1.005", "-0", "9" * 39, "1e400", "1d"],
    "tim": ["2024-02-29", "2024-02-30", "2024", "2024-2", "2024-02-29 23:59:59", "2024-02-29T01:02:03.123456Z",
            "1969-12-31 23:59:59.999999", "0001-01-01", "9999-12-31 23:59:59.999999", "nope", "", "03/02/2024",
            "2024-03-10 02:30:00-05:00", "2024-02-29 24:00:00", "2024-11-03 01:30:00 +00:00", "29 Feb 2024"],
    "x": [True, False],
    "day": [date(2024, 2, 29), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), date(2023, 1, 31),
            date(2021, 1, 3), date(1582, 10, 10)],
    "at": [datetime(2024, 2, 29, 23, 59, 59, 123456, UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
           datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
           datetime(2024, 3, 10, 6, 59, 59, tzinfo=UTC), datetime(2024, 3, 10, 7, 0, 0, tzinfo=UTC),
           datetime(2024, 11, 3, 5, 30, tzinfo=UTC), datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
           datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2024, 10, 27, 1, 30, tzinfo=UTC)],
    "wall": [datetime(2024, 2, 29, 12), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999),
             datetime(2024, 3, 10, 2, 30), datetime(1970, 1, 1, 0, 0, 0, 1)],
    "y": [{"k": 1, "v": "in"}, {"k": None, "v": None}],
    "a": [[], [1], [1, None, 3], [2, 2, 2]],
    "g": [[], ["a"], ["a", None, "😀"], [None]],
    "h": [[], [("a", 1)], [("a", None), ("b", 2)], [("", 0)]],
    "raw": [b"", b"abc", b"\x00\xff", bytes(range(40))],
}  # fmt: skip

EXPRESSIONS = [
    *("round(d)", "round(d, 2)", "round(d, -1)", "round(f, 1)", "bround(d)", "bround(d, 1)", "round(m, 1)"),
    *("round(m, -2)", "bround(m, 1)", "round(i, -1)", "round(l, -3)", "round(b, -1)", "round(n, 3)", "round(w, -2)"),
    *("floor(d)", "ceil(d)", "floor(f)", "floor(m)", "ceil(n)", "ceil(i)", "floor(w)", "abs(n)", "sign(d)", "sign(m)"),
    *("sqrt(d)", "sqrt(i)", "exp(e)", "exp(d)", "ln(d)", "log(d)", "log10(l)", "log2(e)", "log(e, d)", "power(d, e)"),
    *("power(i, 2)", "power(e, d)", "pmod(i, p)", "pmod(l, p)", "pmod(b, b)", "pmod(d, e)", "mod(i, p)", "m % n"),
    *("pmod(m, n)", "m / n", "n / m", "w / z", "n * n", "n + w", "w - n", "m * d", "m + f", "w * z", "m div n", "n % w"),
    *("i + num", "d * num", "f + i", "f > i", "i + null", "at = wall", "at > day"),
    *("try_add(i, i)", "try_subtract(l, 1)", "try_multiply(l, l)", "try_divide(i, p)", "try_divide(m, n)", "try_mod(i, p)"),
    *("cast(num as boolean)", "cast(num as int)", "cast(num as double)", "cast(num as decimal(10,2))", "cast(num as float)"),
    *("try_cast(num as int)", "try_cast(num as decimal(4,1))", "try_cast(tim as date)", "try_cast(tim as timestamp)"),
    *("try_cast(num as boolean)", "try_cast(l as tinyint)", "try_cast(d as int)", "try_cast(num as double)"),
    *("cast(tim as date)", "cast(tim as timestamp)", "cast(tim as timestamp_ntz)", "cast(x as double)"),
    *("cast(x as decimal(3,1))", "cast(d as boolean)", "cast(m as boolean)", "cast(n as string)", "cast(z as string)"),
    *("cast(i as timestamp)", "cast(l as timestamp)", "cast(at as double)", "cast(at as int)", "cast(at as string)"),
    *("cast(d as decimal(10,2))", "cast(d as string)", "cast(f as string)", "cast(f as decimal(20,10))", "cast(raw as string)", "cast(w as double)", "cast(n as float)"),
    *("concat(t, i, x, day)", "concat_ws(u, t, 'x', u)", "concat_ws(',', g, t)", "concat_ws(u, g)", "concat_ws(u, t, num)", "concat_ws('-', t)", "t || num || u"),
    *("substring(t, p)", "substring(t, p, i)", "substring(t, 2, p)", "left(t, p)", "right(t, p)", "left(t, 2)", "right(t, 2)"),
    *("upper(t)", "lower(t)", "initcap(t)", "trim(t)", "ltrim(u, t)", "rtrim('c ', t)", "btrim(t, u)", "trim(both u from t)"),
    *("replace(t, u)", "replace(t, u, 'Z')", "replace(t, 'a', u)", "translate(t, 'abx', u)", "regexp_replace(t, '[a-c]+', '<$0>')"),
    *("regexp_replace(t, '(\\\\d)(\\\\d)', '$2$1')", "regexp_extract(t, '([a-z])(\\\\d+)', 2)", "regexp_extract(t, '(b)', 1)"),
    *("split(t, ',')", "split(t, '[ab]')", "split(t, '\\\\.')", "length(t)", "length(raw)", "octet_length(t)", "bit_length(raw)"),
    *("lpad(t, 5, u)", "rpad(t, p, u)", "lpad(t, i % 9, 'xy')", "rpad(t, 4)", "repeat(t, p)", "repeat(u, 3)", "reverse(t)"),
    *("instr(t, u)", "locate(u, t)", "locate(u, t, p)", "locate('b', t)", "position('a' in t)", "contains(t, u)"),
    *("startswith(t, u)", "endswith(t, u)", "contains(t, 'b')", "startswith(t, 'a')", "substring_index(t, u, p)", "ascii(t)"),
    *("substring_index(t, '.', 2)", "t like '%b%'", "t like 'a\\\\_%'", "t not like '_b_'", "t rlike '^[a-z]+$'", "space(p)"),
    *("to_date(tim)", "to_date(tim, 'yyyy-MM-dd')", "to_date(tim, 'dd/MM/yyyy')", "to_date(tim, 'dd MMM yyyy')"),
    *("to_timestamp(tim)", "to_timestamp(tim, 'yyyy-MM-dd HH:mm:ss')", "unix_timestamp(tim, 'yyyy-MM-dd')", "unix_timestamp(at)"),
    *("unix_timestamp(day)", "from_unixtime(l)", "from_unixtime(i, 'yyyy/MM/dd')", "date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"),
    *("date_format(day, 'EEEE d MMMM yyyy')", "date_format(wall, 'hh:mm a E MMM yy D')", "date_format(at, 'y-M-d H:m:s.S')"),
    *("date_add(day, p)", "date_sub(at, p)", "add_months(day, p)", "add_months(day, b)", "add_months(at, i)", "last_day(day)"),
    *("datediff(day, at)", "date_trunc('hour', at)", "date_trunc('week', day)", "date_trunc('second', wall)", "trunc(day, 'MM')"),
    *("trunc(at, 'quarter')", "year(at)", "quarter(wall)", "month(day)", "dayofweek(at)", "dayofyear(day)"),
    *("weekofyear(day)", "weekday(at)", "hour(at)", "minute(wall)", "second(at)", "hour(day)", "extract(year from at)"),
    *("day + interval 1 month", "day - interval 3 days", "day + interval 5 hours", "at + interval 1 month", "at - interval 1 year"),
    *("at + interval 90 minutes", "wall - interval 2 weeks", "wall + interval 13 months", "make_date(s, b, p)", "p + day", "day - p"),
    *("md5(t)", "md5(raw)", "sha1(t)", "sha2(t, 256)", "sha2(raw, 512)", "crc32(t)", "hash(t)", "hash(i, l, d, f, x, day, at)"),
    *("xxhash64(t)", "xxhash64(i, l, d, f, x, day, at, wall)", "hash(m, n, w, raw)", "xxhash64(m, n, w, raw)", "hash(b, s, t, u, null)"),
    *("array(i, p, l)", "array(t, u)[p]", "a[p]", "a[0]", "element_at(a, p)", "element_at(a, -1)", "try_element_at(a, 2)", "get(a, p)"),
    *("h['a']", "h[u]", "element_at(h, t)", "map(t, i, u, p)", "map('k', t)['k']", "size(a)", "size(h)", "cardinality(g)"),
    *("array_contains(a, 2)", "array_contains(a, p)", "array_contains(g, u)", "named_struct('q', i, 'r', t)", "struct(i, t, i + 1)"),
    *("named_struct('q', a).q[0]", "y.k", "y['v']", "coalesce(y, y)", "coalesce(a, array(p))", "if(x, a, array(1))", "if(x, y, y)"),
    *("case when i > 0 then g else split(t, ',') end", "case when p = 0 then 0 else i div p end", "if(p = 0, null, i / p)"),
    *("coalesce(i, num)", "coalesce(m, i)", "coalesce(m, 1)", "nvl2(t, i, l)", "nvl(t, u)", "ifnull(d, 1)", "nullif(i, p)", "nullif(t, 'a')"),
    *("nullif(i, l)", "greatest(i, l, d)", "least(m, n)", "greatest(t, u)", "greatest(f, d)", "nanvl(d, e)", "i in (1, 3, null)"),
    *("t in (u, 'a')", "i between p and l", "d <=> e", "t <=> u", "i in ('1', '3')", "isnan(d)"),
    *("a is null", "h is not null", "size(split(t, ','))", "upper(i)", "length(m)", "year(tim)", "lower(day)"),
]  # fmt: skip

STRICTER = {
    "cast(raw as string)",  # Spark keeps bytes that are not UTF-8
    "cast(at as string)",
    "cast(d as string)",
    "cast(f as string)",
    "from_unixtime(l)",
    "from_unixtime(i, 'yyyy/MM/dd')",
    "t rlike '^[a-z]+$'",
    "cast(d as decimal(10,2))",
    "cast(num as double)",
    "cast(num as float)",
    "cast(tim as timestamp)",
    "cast(tim as timestamp_ntz)",
    "to_timestamp(tim)",
    "n % w",
    "m % n",
    "pmod(m, n)",
}
"""Fail for some values that Spark computes: see the reference."""


def awkward_rows() -> pa.Table:
    """Return rows in which each column has its unusual values, and null."""
    count = max(map(len, _VALUES.values())) + 1
    rows = [
        {name: [*values, None][row % (len(values) + 1)] for name, values in _VALUES.items()}
        for row in range(count * 3)
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA).combine_chunks()


def random_rows(seed: int, count: int) -> pa.Table:
    """Return rows of random values, one in three of them unusual."""
    chance = Random(seed)
    rows = [{name: _random(chance, name) for name in _SCHEMA.names} for _ in range(count)]
    return pa.Table.from_pylist(rows, schema=_SCHEMA).combine_chunks()


def _random(chance: Random, name: str):
    if chance.random() < 0.35 or name not in _MAKERS:
        return chance.choice([*_VALUES[name], None])
    return _MAKERS[name](chance)


def _text(chance: Random) -> str:
    letters = "aabbcxyzABC 01279,.-_%ßéÄΣ日😀\u0301"
    return "".join(
        chance.choice(letters) for _ in range(chance.randint(0, 45 if chance.random() < 0.2 else 6))
    )


def _double(chance: Random) -> float:
    kind = chance.randint(0, 3)
    if kind == 0:
        return round(chance.uniform(-1000, 1000), chance.randint(0, 4))
    if kind == 1:
        return chance.uniform(-1, 1) * 10 ** chance.randint(-300, 300)
    return chance.gauss(0, 100) if kind == 2 else float(chance.randint(-(10**6), 10**6)) / 2


_START = datetime(1, 1, 2)
_SPAN = int((datetime(9999, 12, 30) - _START).total_seconds())


def _moment(chance: Random) -> datetime:
    return _START + timedelta(
        seconds=chance.randint(0, _SPAN), microseconds=chance.randint(0, 999_999)
    )


_MAKERS = {
    "i": lambda c: c.randint(-(2**31), 2**31 - 1) >> c.randint(0, 31),
    "p": lambda c: c.randint(-9, 9),
    "l": lambda c: c.randint(-(2**63), 2**63 - 1) >> c.randint(0, 63),
    "d": _double,
    "e": lambda c: c.gauss(0, 10),
    "f": lambda c: pa.scalar(c.gauss(0, 1000), pa.float32()).as_py(),
    "m": lambda c: _D(c.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2),
    "n": lambda c: _D(c.randint(-(10 ** c.randint(1, 37)), 10 ** c.randint(1, 37))).scaleb(-10),
    "w": lambda c: _D(c.randint(-(10 ** c.randint(1, 37)), 10 ** c.randint(1, 37))),
    "z": lambda c: _D(c.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-9),
    "t": _text,
    "u": lambda c: _text(c)[:2],
    "num": lambda c: c.choice(
        [str(c.randint(-999, 999)), repr(_double(c)), f"{c.uniform(-99, 99):.3f}"]
    ),
    "tim": lambda c: str(_moment(c))[: c.choice([10, 19, 26])],
    "day": lambda c: _moment(c).date(),
    "at": lambda c: _moment(c).replace(tzinfo=UTC),
    "wall": _moment,
    "a": lambda c: [c.choice([None, c.randint(-9, 9)]) for _ in range(c.randint(0, 4))],
    "g": lambda c: [c.choice([None, _text(c)]) for _ in range(c.randint(0, 4))],
    "h": lambda c: [(k, c.choice([None, 1, 2])) for k in {_text(c)[:1] for _ in range(3)}],
    "raw": lambda c: c.randbytes(c.randint(0, 70)),
}


def evaluated(sql: str, rows: pa.Table | None) -> tuple:
    """Return the type, the values as strings, and the failed rows of an expression."""
    schema = StructType(()) if rows is None else from_arrow_schema(rows.schema)
    node = bind_value(parse_expression(sql), schema)
    if rows is None:
        return (type_of(node),)

    def column(ref):
        values = rows.column(ref.path[0])
        for name in ref.path[1:]:
            values = pc.struct_field(values, name)
        return values

    result = evaluate_checked(node, column, rows.num_rows)
    result.values.validate(full=True)
    assert len(result.values) == rows.num_rows
    failed = [] if result.failed is None else to_numpy(pc.indices_nonzero(result.failed)).tolist()
    return type_of(node), as_strings(result.values), failed


INEXACT = ("exp(", "ln(", "log", "power(")
"""Functions whose last bit may differ from Spark's."""


def rounded(values: list[str]) -> list[str]:
    """Return printed doubles without their last digits."""
    return [value if value == "None" else f"{float(value):.13g}" for value in values]


def as_strings(values: pa.Array) -> list[str]:
    """Return values as comparable strings: timestamps as integers, floats with all digits."""
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    return [repr(value) for value in values.to_pylist()]
