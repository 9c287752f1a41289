"""Random files with valid but unusual statistics, and random predicates."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lazydelta.expressions import as_predicate, bind, evaluate, lit
from lazydelta.schema import parse_schema, to_arrow_schema

_EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
_LONG_TEXT = "abcdefghijklmnopqrstuvwxyz012345"  # exactly the length limit of statistics

_FIELDS = {
    "b": "byte",
    "i": "integer",
    "l": "long",
    "d": "date",
    "t": "timestamp",
    "n": "timestamp_ntz",
    "s": "string",
    "x": "double",
    "f": "float",
    "m": "decimal(10,2)",
    "w": "decimal(25,4)",
    "o": "boolean",
}
_PARTITIONS = {"p": "integer", "q": "string", "u": "timestamp"}


def _field(name: str, kind: Any, metadata: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata or {}}


SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                *(_field(name, kind) for name, kind in _FIELDS.items()),
                _field("st", {"type": "struct", "fields": [_field("k", "long")]}),
                *(_field(name, kind) for name, kind in _PARTITIONS.items()),
                _field("g", "date", {"delta.generationExpression": "CAST(n AS DATE)"}),
                _field("gy", "integer", {"delta.generationExpression": "YEAR(t)"}),
                _field("gm", "integer", {"delta.generationExpression": "MONTH(t)"}),
            ],
        }
    ),
    where="test",
)
PARTITION_COLUMNS = ("p", "q", "u", "g", "gy", "gm")
_ARROW = to_arrow_schema(SCHEMA)

_INTS = [-3, -2, -1, 0, 1, 2, 3, -128, 127]
_LONGS = [*_INTS, 2**53 + 1, 2**63 - 1, -(2**63)]
_DOUBLES = [0.0, -0.0, 0.1, 1.0, -1.5, 2.5, 1e300, math.inf, -math.inf, math.nan]
_FLOATS = [float(np.float32(v)) for v in _DOUBLES if v != 1e300]
_TEXTS = [
    *("", "a", "ab", "abc", "b", "\x7f", "é", "\U0010ffff", "a%", "a_b", "\U0001f600"),
    *(_LONG_TEXT + end for end in ("", "x", "y", "\x7f", "\U0010ffff")),
]
_DATES = [date(2025, 12, 31), date(2026, 1, 1), date(2026, 2, 28), date(2026, 3, 1)]
_MICROS = [0, 1, 999, 1000, 1001, 500_000, 86_399_999_999, 86_400_000_000, -1]
_TIMES = [_EPOCH + timedelta(microseconds=micros) for micros in _MICROS]
_WALLS = [time.replace(tzinfo=None) for time in _TIMES]
_MONEY = [Decimal(v) for v in ("0.00", "0.01", "-1.50", "99999999.99", "2.00")]
_WIDE = [
    Decimal(v)
    for v in (
        *("0.0000", "123456789012345678.1234", "123456789012345678.1235", "1.5000"),
        "-999999999999999999999.9999",
    )
]
VALUES: dict[str, list[Any]] = {
    "b": _INTS,
    "i": _INTS,
    "l": _LONGS,
    "d": _DATES,
    "t": _TIMES,
    "n": _WALLS,
    "s": _TEXTS,
    "x": _DOUBLES,
    "f": _FLOATS,
    "m": _MONEY,
    "w": _WIDE,
    "o": [True, False],
    "st.k": _LONGS,
    "p": _INTS,
    "q": [text for text in _TEXTS if text],
    "u": _TIMES,
    "g": _DATES,
    "gy": [2025, 2026, 2027],
    "gm": [*range(1, 13)],
}


@dataclass
class File:
    """The rows of a file, its deleted rows, and its log entry."""

    rows: list[dict[str, Any]]
    deleted: list[bool]
    partition: dict[str, Any]
    stats: dict[str, Any] | None = None
    typed: dict[str, Any] = field(default_factory=dict)


def _wall_day(rows: list[dict[str, Any]]) -> None:
    """Move all rows of a file to the date of the first, for the generated column."""
    first = rows[0]["n"]
    for row in rows:
        row["n"] = None if first is None else row["n"] or first
        if first is not None:
            row["n"] = datetime.combine(first.date(), row["n"].time())


def make_files(seed: int, count: int) -> list[File]:
    """Make files from a seed: drawing so many columns from hypothesis would be slow."""
    chance = Random(seed)
    return [_make_file(chance) for _ in range(count)]


def _make_file(chance: Random) -> File:
    """Make a file: a few rows, some deleted, with statistics over all of them."""
    count = chance.randint(1, 4)
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name in [*_FIELDS, "st.k"]:
        few = chance.sample(VALUES[name], chance.randint(1, 2))
        values = [*few, None] if chance.random() < 0.4 else few
        values = [None] if chance.random() < 0.1 else values
        for row in rows:
            row[name] = chance.choice(values)
    _wall_day(rows)
    zone = timedelta(hours=chance.choice([0, -11, 14]))
    partition = {name: chance.choice([None, *VALUES[name]]) for name in _PARTITIONS}
    partition |= _generated(rows, zone)
    deleted = [count > 1 and chance.random() < 0.3 for _ in range(count)]
    found = File(rows, deleted, partition)
    if chance.random() < 0.9:
        _add_stats(found, chance)
    return found


def _generated(rows: list[dict[str, Any]], zone: timedelta) -> dict[str, Any]:
    """Compute the generated partition columns, the zoned ones in the writer's own zone."""
    wall = rows[0]["n"]
    local = [row["t"] + zone for row in rows if row["t"] is not None]
    months = {(time.year, time.month) for time in local}
    if len(months) != 1 or len(local) != len(rows):
        for row in rows:
            row["t"] = None  # a file is in one partition
        return {"g": wall and wall.date(), "gy": None, "gm": None}
    ((year, month),) = months
    return {"g": wall and wall.date(), "gy": year, "gm": month}


# --- statistics ---------------------------------------------------------------------------------


def _add_stats(file: File, chance: Random) -> None:
    """Write statistics: complete or partial, exact or truncated."""
    spark = chance.random() < 0.5
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for name in [*_FIELDS, "st.k"]:
        if chance.random() < 0.1:
            continue
        values = [row[name] for row in file.rows if row[name] is not None]
        nulls[name] = len(file.rows) - len(values)
        if name in ("x", "f") and not spark:
            values = [value for value in values if not math.isnan(value)]
        if values and chance.random() < 0.9:
            order = (lambda v: (math.isnan(v), v)) if name in ("x", "f") else (lambda v: v)
            rounded = not spark and name == "w"
            low[name] = _least(min(values, key=order), rounded)
            high[name] = _greatest(max(values, key=order), rounded)
            if high[name] is None:
                del high[name]
    file.typed = {
        "numRecords": len(file.rows),
        "minValues": low,
        "maxValues": high,
        "nullCount": nulls,
    }
    file.stats = {
        "numRecords": len(file.rows),
        **{
            group: _nested({n: _plain(v) for n, v in values.items()})
            for group, values in (("minValues", low), ("maxValues", high), ("nullCount", nulls))
        },
    }


def _least(value: Any, rounded: bool) -> Any:
    if isinstance(value, str):
        return value[:32]
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return Decimal(repr(float(value))) if rounded else value


def _greatest(value: Any, rounded: bool) -> Any:
    if isinstance(value, str) and len(value) > 32:
        cut = value[:32]
        return cut + "\x7f" if value[32] < "\x7f" else cut + "\U0010ffff" * (len(value) - 32)
    return _least(value, rounded)


def _plain(value: Any) -> Any:
    """Return the JSON value; `stats_text` inserts decimals as numbers."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if rest:
            result[head] = {rest: value}
        else:
            result[head] = value
    return result


def stats_text(stats: dict[str, Any] | None) -> str | None:
    """Return statistics as a JSON string, decimals as numbers."""
    if stats is None:
        return None

    def dump(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(f"{json.dumps(k)}:{dump(v)}" for k, v in value.items()) + "}"
        return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)

    return dump(stats)


# --- predicates ---------------------------------------------------------------------------------

_OPS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
_ODD_NUMBERS = [
    *(0, 1, -2, 200, 0.5, -1.5, 1e20, Decimal("0.5"), Decimal("2.00"), 2**63, -(2**70)),
    *(math.nan, math.inf),
]
_NUMERIC = ("b", "i", "l", "x", "f", "m", "w", "st.k", "p")
_FUNCTIONS: dict[str, list[Any]] = {
    "date(t)": _DATES,
    "date(n)": _DATES,
    "cast(d as timestamp)": _TIMES,
    "year(d)": [2025, 2026, 2027],
    "month(d)": [1, 2, 3],
    "day(t)": [28, 1, 2],
    "hour(n)": [0, 23],
    "trunc(d, 'MM')": _DATES,
    "date_trunc('hour', t)": _TIMES,
    "date_format(d, 'yyyy-MM')": ["2025-12", "2026-01", "2026-03"],
    "substring(s, 1, 2)": _TEXTS,
    "substring(s, 2, 2)": _TEXTS,
    "substring(s, -2)": _TEXTS,
    "length(s)": [0, 1, 32, 33],
    "cast(i as double)": _ODD_NUMBERS,
    "cast(l as double)": _ODD_NUMBERS,
    "cast(f as double)": _DOUBLES,
    "cast(b as string)": ["1", "-2"],
    "cast(s as integer)": _INTS,
    "cast(d as string)": ["2026-01-01"],
    "i + 1": _ODD_NUMBERS,
    "l - 2": _ODD_NUMBERS,
    "3 - b": _INTS,
    "x + 1.5D": _DOUBLES,
    "- i": _INTS,
    "i + l": _ODD_NUMBERS,
    "m + 1": _ODD_NUMBERS,
    "x - 1.0D": _DOUBLES,
    "year(u)": [2026],
    "- x": _DOUBLES,
    "substring(q, 1, 1)": _TEXTS,
}
_ROW_FUNCTIONS: dict[str, list[Any]] = {
    "coalesce(i, b, 2)": _INTS,
    "coalesce(s, 'a')": _TEXTS,
    "greatest(i, b)": _INTS,
    "nullif(i, 1)": _INTS,
    "case when i > 0 then b when i is null then 3 end": _INTS,
    "if(o, s, 'b')": _TEXTS,
    "l * l": _ODD_NUMBERS,
    "i * 2": _ODD_NUMBERS,
    "l + l": _ODD_NUMBERS,
    "i / b": _ODD_NUMBERS,
    "i % b": _INTS,
    "lower(s)": _TEXTS,
    "s || q": _TEXTS,
    "cast(l as integer)": _INTS,
    "cast(x as integer)": _INTS,
    "cast(m as integer)": _INTS,
    "cast(o as integer)": [0, 1],
    "date_add(d, 1)": _DATES,
    "last_day(d)": _DATES,
    "cast(x as string)": ["-0.0", "0.0", "0.1", "NaN"],
    "sign(x)": [-1.0, -0.0, 0.0, 1.0],
    "round(x)": _DOUBLES,
    "cast(m as string)": ["0.00", "2.00"],
    "left(s, 2)": _TEXTS,
    "substring(s, 1, b)": _TEXTS,
    "concat_ws('', s, q)": _TEXTS,
    "hash(i, s)": _INTS,
    "pmod(i, 3)": _INTS,
    "nvl2(i, b, p)": _INTS,
    "array(i, b)[0]": _INTS,
    "named_struct('a', l).a": _LONGS,
    "try_divide(i, b)": _ODD_NUMBERS,
    "try_cast(s as integer)": _INTS,
    "date_format(d, 'MMM yyyy')": ["Jan 2026", "Dec 2025"],
    "t + interval 1 day": _TIMES,
    "isnull(i)": [True, False],
    "i is distinct from 1": [True, False],
}
"""Functions that Spark's translation of a predicate does not have."""
_PAIRS = [
    ("i", "l"),
    ("b", "p"),
    ("x", "f"),
    ("m", "w"),
    ("d", "t"),
    ("t", "n"),
    ("s", "q"),
    ("l", "x"),
    ("i", "m"),
    ("l", "st.k"),
    ("d", "g"),
    ("t", "u"),
    ("i", "i"),
    ("o", "o"),
]
_PATTERNS = st.sampled_from(
    [
        "a%",
        "ab",
        "%",
        "a_%",
        "%b",
        "a\\%",
        "",
        "_",
        "\U0010ffff%",
        _LONG_TEXT + "%",
        _LONG_TEXT[:10] + "%x",
    ]
)


def _text(value: Any) -> str:
    return str(lit(value).node)


@st.composite
def _comparison(draw: st.DrawFn) -> str:
    name, op = draw(st.sampled_from(sorted(VALUES))), draw(st.sampled_from(_OPS))
    odd = name in _NUMERIC and draw(st.booleans())
    return f"{name} {op} {_text(draw(st.sampled_from(_ODD_NUMBERS if odd else VALUES[name])))}"


@st.composite
def _function(draw: st.DrawFn, functions: dict[str, list[Any]]) -> str:
    text = draw(st.sampled_from(sorted(functions)))
    values = st.sampled_from(functions[text])
    text = f"({text})" if " is " in text else text
    value = _text(draw(values))
    if draw(st.integers(0, 4)) == 0:
        return f"{text} IN ({value}, {_text(draw(values))})"
    return f"{text} {draw(st.sampled_from(_OPS))} {value}"


@st.composite
def _membership(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(VALUES)))
    options = draw(st.lists(st.sampled_from(VALUES[name]), min_size=1, max_size=4))
    strings = [_text(option) for option in options]
    if draw(st.integers(0, 5)) == 0:
        strings.append("NULL")
    return f"{name} {draw(st.sampled_from(['IN', 'NOT IN']))} ({', '.join(strings)})"


_LEAVES = st.one_of(
    _comparison(),
    _comparison(),
    _membership(),
    _function(_FUNCTIONS),
    st.sampled_from(sorted(VALUES)).map(lambda name: f"{name} IS NULL"),
    st.tuples(st.sampled_from(["s", "q"]), st.sampled_from(["LIKE", "NOT LIKE"]), _PATTERNS).map(
        lambda parts: f"{parts[0]} {parts[1]} {_text(parts[2])}"
    ),
    st.tuples(st.sampled_from(_PAIRS), st.sampled_from(_OPS)).map(
        lambda parts: f"{parts[0][0]} {parts[1]} {parts[0][1]}"
    ),
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, st.sampled_from(["AND", "OR"]), inner)
    return st.one_of(
        pair.map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"),
        inner.map(lambda text: f"NOT ({text})"),
        inner.map(lambda text: f"({text}) IS NULL"),
        inner.map(lambda text: f"({text}) IS NOT NULL"),
        inner.map(lambda text: f"({text}) IS TRUE"),
        inner.map(lambda text: f"({text}) IS NOT FALSE"),
    )


PREDICATES = st.recursive(_LEAVES, _grown, max_leaves=4)
ROW_PREDICATES = st.recursive(st.one_of(_LEAVES, _function(_ROW_FUNCTIONS)), _grown, max_leaves=4)
"""The same, with functions that only our own evaluator has."""


# --- statistics and rows of a file ---------------------------------------------------------------


def matches(predicate: str, files: list[File]) -> list[bool]:
    """Return the files with a matching row that is not deleted: the expected result."""
    bound = bind(as_predicate(predicate), SCHEMA, PARTITION_COLUMNS)
    live = [
        (at, row | file.partition)
        for at, file in enumerate(files)
        for row, gone in zip(file.rows, file.deleted, strict=True)
        if not gone
    ]

    def column(ref: Any) -> pa.Array:
        kind = pa.int64() if ref.path[0] == "st" else _ARROW.field(ref.path[0]).type
        return pa.array([row[".".join(ref.path)] for _, row in live], kind)

    found = evaluate(bound, column, len(live)).to_pylist()
    wanted = {at for (at, _), true in zip(live, found, strict=True) if true}
    return [at in wanted for at in range(len(files))]


def partition_text(value: Any) -> str | None:
    """Return a serialized partition value."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)


__all__ = [
    "PARTITION_COLUMNS",
    "PREDICATES",
    "ROW_PREDICATES",
    "SCHEMA",
    "File",
    "make_files",
    "matches",
    "partition_text",
    "stats_text",
]
